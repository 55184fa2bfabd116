#pragma once

#include <cstdint>
#include <string_view>

#include "base/result.h"

namespace babelring {

/// How far training has come.
struct Progress {
  std::int64_t update = 0;         // updates done
  double epoch = 0;                // passes over the training text, fractional
  std::int64_t target_tokens = 0;  // trained on, over all ranks
};

/// A stretch of training with its unit: `4000u` updates, `2e` epochs, `50Mt` target tokens (k, M, G before t).
/// A bare number counts updates.
class Duration {
 public:
  enum class Unit { updates, epochs, target_tokens };
  Duration(double value, Unit unit) : value_(value), unit_(unit) {}

  /// The Error says what was found and what is expected.
  static Result<Duration> parse(std::string_view text);

  /// The part of it that is over: 0 at the start, 1 when it is reached, more after. A zero duration is over at once.
  double fraction(const Progress& progress) const;
  /// How many whole times it has passed.
  std::int64_t times(const Progress& progress) const;
  double value() const { return value_; }
  Unit unit() const { return unit_; }

 private:
  double value_;
  Unit unit_;
};

}  // namespace babelring
