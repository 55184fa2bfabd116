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

/// The quantile at `level` (0 to 1) of sorted values. Requires at least one value.
double quantile(std::span<const double> sorted, double level);

/// Derives an independent random 64-bit number from a seed and two indices.
std::uint64_t draw_bits(std::uint64_t seed, std::uint64_t first, std::uint64_t second);

/// Recorded values of a random quantity.
struct Samples {
  std::vector<double> values;  // empty: the quantity is constant

  /// One of the values, chosen by `bits`; `fallback` if there are none.
  double draw(std::uint64_t bits, double fallback) const;
};

/// A point of a Curve.
struct CurvePoint {
  double x = 0, y = 0;
};

/// A piecewise linear function through points. Beyond the first and the last point it continues the outermost segment,
/// but is never negative. With one point it is proportional to x; without points it is 0.
class Curve {
 public:
  Curve() = default;
  /// Points in any order. Throws UsageFailure if two have the same x, or if one is negative or not finite.
  explicit Curve(std::vector<CurvePoint> points);

  double at(double x) const;
  bool empty() const { return points_.empty(); }
  const std::vector<CurvePoint>& points() const { return points_; }  // by ascending x

 private:
  std::vector<CurvePoint> points_;
};

/// How well a curve predicts a point that it does not contain: for each point, (value of the curve through all other
/// points − y) / y. Empty with fewer than three points.
std::vector<double> leave_one_out(const Curve& curve);

/// The mean and the largest of the errors' absolute values; 0 for no errors.
struct ErrorSummary {
  double mean = 0, largest = 0;
  std::size_t count = 0;
};
ErrorSummary summary_of(const std::vector<double>& errors);

/// Max number of unknowns of non_negative_least_squares().
inline constexpr std::size_t max_unknowns = 8;

/// The x >= 0 with the smallest sum over rows of (row · x − target)². All rows have the same length, from 1 to
/// max_unknowns. An unknown whose column is zero, or a multiple of another column, may get 0. Throws Failure if the
/// sizes do not fit.
std::vector<double> non_negative_least_squares(std::span<const std::vector<double>> rows,
                                               std::span<const double> targets);

}  // namespace babelring::insight
