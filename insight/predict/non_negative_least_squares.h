#pragma once

#include <span>
#include <vector>

namespace babelring::insight {

/// Max number of unknowns of non_negative_least_squares().
inline constexpr std::size_t max_unknowns = 8;

/// The x >= 0 with the smallest sum over rows of (row · x − target)². All rows have the same length, from 1 to
/// max_unknowns. An unknown whose column is zero, or a multiple of another column, may get 0. Throws Failure if the
/// sizes do not fit.
std::vector<double> non_negative_least_squares(std::span<const std::vector<double>> rows,
                                               std::span<const double> targets);

}  // namespace babelring::insight
