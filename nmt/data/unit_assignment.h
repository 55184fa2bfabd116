#pragma once

#include <vector>

#include "nmt/data/update_source.h"

namespace babelring {

/// The number of units that each rank computes so that the slowest is done as early as possible: rank r computes with a
/// speed in proportion to shares[r]. At least 1 and at most twice an equal number each. `units` is a multiple of the
/// number of ranks.
std::vector<int> unit_counts(const std::vector<double>& shares, int units);

/// The units that move if the rank at position p computes counts[p] of them: as few as possible, the last ones of the
/// ranks with fewer than an equal number, ascending.
std::vector<MovedUnit> moved_units(const std::vector<int>& counts);

/// Sets which units of `batches.update` the part's rank computes and which move.
void assign_units(UpdateBatches& batches, const RankPart& part);

}  // namespace babelring
