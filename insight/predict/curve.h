#pragma once

#include <vector>

namespace babelring::insight {

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

}  // namespace babelring::insight
