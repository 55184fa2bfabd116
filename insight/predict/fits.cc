#include "insight/predict/fits.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <optional>

#include "base/failure.h"

namespace babelring::insight {

double quantile(std::span<const double> sorted, double level) {
  const double at = level * static_cast<double>(sorted.size() - 1);
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

namespace {

using Rows = std::span<const std::vector<double>>;

/// Solves a system of equations by elimination with pivots. Each row of `system` ends with the right side. None if the
/// system is singular.
std::optional<std::vector<double>> solve(std::vector<std::vector<double>> system) {
  const std::size_t n = system.size();
  for (std::size_t column = 0; column < n; ++column) {
    std::size_t pivot = column;
    for (std::size_t row = column + 1; row < n; ++row) {
      if (std::abs(system[row][column]) > std::abs(system[pivot][column])) pivot = row;
    }
    if (std::abs(system[pivot][column]) < 1e-12) return std::nullopt;
    std::swap(system[column], system[pivot]);
    for (std::size_t row = 0; row < n; ++row) {
      if (row == column) continue;
      const double factor = system[row][column] / system[column][column];
      for (std::size_t i = column; i <= n; ++i) system[row][i] -= factor * system[column][i];
    }
  }
  std::vector<double> x(n);
  for (std::size_t i = 0; i < n; ++i) x[i] = system[i][n] / system[i][i];
  return x;
}

/// The least squares of the chosen columns, whose normal equations are scaled to a diagonal of ones; 0 for the others.
std::optional<std::vector<double>> fit_columns(Rows rows, std::span<const double> targets,
                                               std::span<const double> scale, unsigned chosen) {
  std::vector<std::size_t> columns;
  for (std::size_t i = 0; i < scale.size(); ++i) {
    if ((chosen >> i & 1U) != 0) columns.push_back(i);
  }
  std::vector<std::vector<double>> system(columns.size(), std::vector<double>(columns.size() + 1));
  for (std::size_t a = 0; a < columns.size(); ++a) {
    if (scale[columns[a]] == 0) return std::nullopt;
    for (std::size_t row = 0; row < rows.size(); ++row) {
      const double own = rows[row][columns[a]] / scale[columns[a]];
      for (std::size_t b = 0; b < columns.size(); ++b) {
        system[a][b] += own * rows[row][columns[b]] / scale[columns[b]];
      }
      system[a].back() += own * targets[row];
    }
  }
  const auto solved = solve(std::move(system));
  if (!solved) return std::nullopt;
  std::vector<double> x(scale.size());
  for (std::size_t a = 0; a < columns.size(); ++a) x[columns[a]] = (*solved)[a] / scale[columns[a]];
  return x;
}

double squares(Rows rows, std::span<const double> targets, std::span<const double> x) {
  double sum = 0;
  for (std::size_t row = 0; row < rows.size(); ++row) {
    double difference = -targets[row];
    for (std::size_t i = 0; i < x.size(); ++i) difference += rows[row][i] * x[i];
    sum += difference * difference;
  }
  return sum;
}

}  // namespace

std::vector<double> non_negative_least_squares(Rows rows, std::span<const double> targets) {
  if (rows.empty() || rows.size() != targets.size()) {
    fail("non_negative_least_squares: found {} rows and {} targets, expected as many of both", rows.size(),
         targets.size());
  }
  const std::size_t unknowns = rows.front().size();
  if (unknowns == 0 || unknowns > max_unknowns) {
    fail("non_negative_least_squares: found {} unknowns, expected 1 to {}", unknowns, max_unknowns);
  }
  std::vector<double> scale(unknowns);
  for (const std::vector<double>& row : rows) {
    if (row.size() != unknowns)
      fail("non_negative_least_squares: found a row of {}, expected {}", row.size(), unknowns);
    for (std::size_t i = 0; i < unknowns; ++i) scale[i] += row[i] * row[i];
  }
  for (double& each : scale) each = std::sqrt(each);
  // The solution is the least squares of the columns in which it is positive: with few columns all sets are tried.
  std::vector<double> best(unknowns);
  double lowest = squares(rows, targets, best);
  for (unsigned chosen = 1; chosen < 1U << unknowns; ++chosen) {
    const auto x = fit_columns(rows, targets, scale, chosen);
    if (!x || std::ranges::any_of(*x, [](double each) { return each < 0; })) continue;
    const double sum = squares(rows, targets, *x);
    if (sum < lowest) {
      lowest = sum;
      best = *x;
    }
  }
  return best;
}

}  // namespace babelring::insight
