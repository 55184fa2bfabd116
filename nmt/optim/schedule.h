#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/options/options.h"
#include "base/result.h"

namespace babelring {

/// Training progress in each unit of Interval.
struct Progress {
  std::int64_t update = 0;         // completed updates
  double epoch = 0;                // completed passes over the training set, fractional
  std::int64_t target_tokens = 0;  // target tokens trained on, summed over all ranks
  double fraction = 0;             // of the whole training, fraction_done(); for schedules in percent
};

/// A length of training with its unit: `4000u` updates, `2e` epochs, `50Mt` target tokens (t, kt, Mt or Gt), `5%` of
/// the whole training. A bare number counts updates.
class Interval {
 public:
  enum class Unit { updates, epochs, target_tokens, percent };

  /// For literals: `Interval every = "1e";`. Throws Failure if parse() refuses the text.
  Interval(const char* text) : Interval(parse(text).value()) {}  // NOLINT: literals convert
  /// The Error quotes the text and lists the accepted forms.
  static Result<Interval> parse(std::string_view text);

  /// Elapsed fraction: 0 at the start of training, 1 when the interval has passed, above 1 afterwards. A zero interval
  /// gives 1 at the start and infinity afterwards.
  double fraction(const Progress& progress) const;
  /// Number of complete intervals since the start of training; 0 for a zero interval.
  std::int64_t times(const Progress& progress) const;
  /// In `unit()`: updates, epochs, target tokens or percent.
  double value() const { return value_; }
  Unit unit() const { return unit_; }
  /// The text that was parsed.
  const std::string& text() const { return text_; }

 private:
  Interval(double value, Unit unit, std::string_view text) : value_(value), unit_(unit), text_(text) {}

  double value_;
  Unit unit_;
  std::string text_;
};

/// The part of the training that is done, from 0 to 1, by the limit that it reaches first: `stop_after`, or
/// `max_minutes` unless 0. `minutes`: training time so far.
double fraction_done(const Interval& stop_after, double max_minutes, const Progress& progress, double minutes);

enum class Decay { inverse_sqrt, linear, cosine, wsd, constant };

/// Options of Schedule. bind() documents each member.
struct ScheduleOptions {
  Decay schedule = Decay::inverse_sqrt;
  double learning_rate = 0.0007;
  Interval warm_up = "4000u";
  Interval decay = "100000u";
  Interval cool_down = "20%";
  double final_fraction = 0;

  void bind(OptionBinder& binder);
  /// Says that training ends, after `end`, before the warm-up. "" otherwise, for a run without updates, and for
  /// intervals in different units.
  std::string unfinished_warm_up(const Interval& end) const;
  /// Says that a decay to 0 is over before `end`, so that the updates between have learning rate 0. "" otherwise.
  /// `now`: where training begins or resumes. `per_update`: the progress that an update makes, to compare units; 0:
  /// unknown. `max_minutes`: training may end sooner; 0: it does not.
  std::string zero_rate_at_end(const Interval& end, const Progress& now, const Progress& per_update,
                               double max_minutes) const;
};

/// Learning rate as a function of progress: linear warm-up from 0 to `learning_rate`, then
///   inverse-sqrt  learning_rate * sqrt(warm_up / t)     Source: Vaswani et al. 2017, eq. 3, scaled to its peak
///   linear        falling to final_fraction * learning_rate at t = decay, constant after
///   cosine        the same along half a cosine         Source: Loshchilov and Hutter 2017, eq. 5, without restarts
///   wsd           constant, then over cool_down the same along 1 - sqrt(x)      Source: Hägele et al. 2024, 3.1
///   constant
class Schedule {
 public:
  /// Throws ConfigError if the units of warm_up, decay and cool_down differ in a schedule that reads them; a cool_down
  /// in percent is a part of any decay.
  explicit Schedule(const ScheduleOptions& options);

  /// Learning rate of an update. `progress` includes that update, so the first call has progress.update == 1.
  double learning_rate(const Progress& progress) const;

 private:
  double cool_down() const;  // in the unit of decay

  ScheduleOptions options_;
};

}  // namespace babelring
