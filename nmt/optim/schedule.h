#pragma once

#include <string>

#include "base/options/options.h"
#include "nmt/optim/interval.h"

namespace babelring {

enum class Decay { inverse_sqrt, linear, cosine, constant };

/// Options of Schedule. bind() documents each member.
struct ScheduleOptions {
  Decay schedule = Decay::inverse_sqrt;
  double learning_rate = 0.0007;
  Interval warm_up = "4000u";
  Interval decay = "100000u";
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
///   constant
class Schedule {
 public:
  /// Throws ConfigError if the units of warm_up and decay differ in a linear or cosine schedule.
  explicit Schedule(const ScheduleOptions& options);

  /// Learning rate of an update. `progress` includes that update, so the first call has progress.update == 1.
  double learning_rate(const Progress& progress) const;

 private:
  ScheduleOptions options_;
};

}  // namespace babelring
