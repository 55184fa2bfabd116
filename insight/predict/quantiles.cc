#include "insight/predict/quantiles.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace babelring::insight {

double quantile(std::span<const double> sorted, double share) {
  const double at = share * static_cast<double>(sorted.size() - 1);
  const auto below = static_cast<std::size_t>(at);
  const std::size_t above = std::min(below + 1, sorted.size() - 1);
  return sorted[below] + (at - static_cast<double>(below)) * (sorted[above] - sorted[below]);
}

Quantiles quantiles_of(std::vector<double> values) {
  if (values.empty()) return {};
  std::ranges::sort(values);
  const double mean = std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
  return {mean, quantile(values, 0.5), quantile(values, 0.95), quantile(values, 0.99)};
}

std::uint64_t draw_bits(std::uint64_t seed, std::uint64_t first, std::uint64_t second) {
  // The finalizer of SplitMix64 (Steele, Lea and Flood 2014), once for each number.
  const auto mix = [](std::uint64_t x) {
    x += 0x9e3779b97f4a7c15ULL;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ULL;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebULL;
    return x ^ (x >> 31);
  };
  return mix(mix(mix(seed) + first) + second);
}

double Samples::draw(std::uint64_t bits, double fallback) const {
  return values.empty() ? fallback : values[bits % values.size()];
}

}  // namespace babelring::insight
