#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace babelring::insight {

/// The mean and quantiles of a list of numbers; all 0 for an empty list.
struct Quantiles {
  double mean = 0, median = 0, p95 = 0, p99 = 0;
};

/// Quantiles by linear interpolation between the two nearest ranks.
Quantiles quantiles_of(std::vector<double> values);

/// The quantile at `share` (0 to 1) of sorted values. Requires at least one value.
double quantile(std::span<const double> sorted, double share);

/// Derives an independent random 64-bit number from a seed and two indices.
std::uint64_t draw_bits(std::uint64_t seed, std::uint64_t first, std::uint64_t second);

/// Recorded values of a random quantity.
struct Samples {
  std::vector<double> values;  // empty: the quantity is constant

  /// One of the values, chosen by `bits`; `fallback` if there are none.
  double draw(std::uint64_t bits, double fallback) const;
};

}  // namespace babelring::insight
