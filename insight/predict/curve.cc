#include "insight/predict/curve.h"

#include <algorithm>
#include <cmath>

#include "base/failure.h"

namespace babelring::insight {

Curve::Curve(std::vector<CurvePoint> points) : points_(std::move(points)) {
  std::ranges::sort(points_, {}, &CurvePoint::x);
  for (std::size_t i = 0; i < points_.size(); ++i) {
    const auto [x, y] = points_[i];
    if (!std::isfinite(x) || !std::isfinite(y) || x < 0 || y < 0) {
      throw UsageFailure(fmt::format("found the point ({}, {}), expected numbers of at least 0", x, y));
    }
    if (i > 0 && points_[i - 1].x == x) {
      throw UsageFailure(fmt::format("found two values for {}, expected one", x));
    }
  }
}

double Curve::at(double x) const {
  if (points_.empty()) return 0;
  if (points_.size() == 1) return points_[0].x > 0 ? points_[0].y * x / points_[0].x : points_[0].y;
  const auto above = std::ranges::upper_bound(points_, x, {}, &CurvePoint::x);
  const auto end = std::clamp(above - points_.begin(), std::ptrdiff_t{1}, std::ssize(points_) - 1);
  const CurvePoint& a = points_[static_cast<std::size_t>(end - 1)];
  const CurvePoint& b = points_[static_cast<std::size_t>(end)];
  return std::max(0.0, a.y + (b.y - a.y) * (x - a.x) / (b.x - a.x));
}

std::vector<double> leave_one_out(const Curve& curve) {
  std::vector<double> errors;
  if (curve.points().size() < 3) return errors;
  for (const CurvePoint& left_out : curve.points()) {
    std::vector<CurvePoint> others;
    std::ranges::copy_if(curve.points(), std::back_inserter(others),
                         [&](const CurvePoint& each) { return each.x != left_out.x; });
    if (left_out.y > 0) errors.push_back(Curve(std::move(others)).at(left_out.x) / left_out.y - 1);
  }
  return errors;
}

ErrorSummary summary_of(const std::vector<double>& errors) {
  ErrorSummary summary{.count = errors.size()};
  for (const double error : errors) {
    summary.mean += std::abs(error) / static_cast<double>(errors.size());
    summary.largest = std::max(summary.largest, std::abs(error));
  }
  return summary;
}

}  // namespace babelring::insight
