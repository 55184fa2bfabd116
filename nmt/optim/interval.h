#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/result.h"

namespace babelring {

/// Training progress in each unit of Interval.
struct Progress {
  std::int64_t update = 0;         // completed updates
  double epoch = 0;                // completed passes over the training set, fractional
  std::int64_t target_tokens = 0;  // target tokens trained on, summed over all ranks
};

/// A length of training with its unit: `4000u` updates, `2e` epochs, `50Mt` target tokens (t, kt, Mt or Gt). A bare
/// number counts updates.
class Interval {
 public:
  enum class Unit { updates, epochs, target_tokens };

  /// For literals: `Interval every = "1e";`. Throws Failure if parse() refuses the text.
  Interval(const char* text) : Interval(parse(text).value()) {}  // NOLINT: literals convert
  /// The Error quotes the text and lists the accepted forms.
  static Result<Interval> parse(std::string_view text);

  /// Elapsed fraction: 0 at the start of training, 1 when the interval has passed, above 1 afterwards. A zero interval
  /// gives 1 at the start and infinity afterwards.
  double fraction(const Progress& progress) const;
  /// Number of complete intervals since the start of training; 0 for a zero interval.
  std::int64_t times(const Progress& progress) const;
  /// In `unit()`: updates, epochs or target tokens.
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

}  // namespace babelring
