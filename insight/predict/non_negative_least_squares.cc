#include "insight/predict/non_negative_least_squares.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>

#include "base/failure.h"

namespace babelring::insight {
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
