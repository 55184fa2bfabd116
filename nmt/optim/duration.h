#pragma once

#include <cstdint>
#include <string_view>

#include "base/result.h"

namespace babelring {

/// Training progress in each unit of Duration.
struct Progress {
  std::int64_t update = 0;         // completed updates
  double epoch = 0;                // completed passes over the training set, fractional
  std::int64_t target_tokens = 0;  // target tokens trained on, summed over all ranks
};

/// A training interval with its unit: `4000u` updates, `2e` epochs, `50Mt` target tokens (t, kt, Mt or Gt). A bare
/// number counts updates.
class Duration {
 public:
  enum class Unit { updates, epochs, target_tokens };
  Duration(double value, Unit unit) : value_(value), unit_(unit) {}

  /// On failure the Error quotes the text and lists the accepted forms.
  static Result<Duration> parse(std::string_view text);

  /// Elapsed fraction: 0 at the start of training, 1 when the duration has passed, above 1 afterwards. A zero duration
  /// gives 1 at the start and infinity afterwards.
  double fraction(const Progress& progress) const;
  /// Number of complete intervals since the start of training; 0 for a zero duration.
  std::int64_t times(const Progress& progress) const;
  double value() const { return value_; }
  Unit unit() const { return unit_; }

 private:
  double value_;
  Unit unit_;
};

}  // namespace babelring
