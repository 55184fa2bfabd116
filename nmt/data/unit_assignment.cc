#include "nmt/data/unit_assignment.h"

#include <numeric>
#include <utility>

namespace babelring {

std::vector<int> unit_counts(const std::vector<double>& shares, int units) {
  const int ranks = static_cast<int>(shares.size());
  std::vector<int> counts(shares.size(), 1);
  for (int given = ranks; given < units; ++given) {
    std::size_t next = shares.size();
    // When the rank would be done with one more unit; of equal times the rank with fewer units comes first.
    const auto done = [&](std::size_t rank) { return std::pair((counts[rank] + 1) / shares[rank], counts[rank]); };
    for (std::size_t rank = 0; rank < shares.size(); ++rank) {
      if (counts[rank] < 2 * units / ranks && (next == shares.size() || done(rank) < done(next))) next = rank;
    }
    ++counts[next];
  }
  return counts;
}

std::vector<MovedUnit> moved_units(const std::vector<int>& counts) {
  const int ranks = static_cast<int>(counts.size());
  const int equal = std::accumulate(counts.begin(), counts.end(), 0) / ranks;
  std::vector<MovedUnit> moved;
  int helper = 0, spare = 0;  // units that the helper can compute more
  const auto next_helper = [&] {
    while (spare == 0) spare = std::max(0, counts[static_cast<std::size_t>(helper++)] - equal);
    --spare;
    return helper - 1;
  };
  for (int home = 0; home < ranks; ++home) {
    for (int unit = home * equal + counts[static_cast<std::size_t>(home)]; unit < (home + 1) * equal; ++unit) {
      moved.push_back({.unit = unit, .computed_by = next_helper(), .home = home});
    }
  }
  return moved;
}

void assign_units(UpdateBatches& batches, const RankPart& part) {
  if (part.units == 0) return;
  batches.units = units_of(part);
  if (part.shares != nullptr) {
    const auto bounds = part.shares->bounds(batches.update);
    std::vector<double> shares;
    for (std::size_t rank = 0; rank + 1 < bounds->size(); ++rank)
      shares.push_back((*bounds)[rank + 1] - (*bounds)[rank]);
    batches.moved = moved_units(unit_counts(shares, part.units));
  }
  batches.computed.clear();
  int last = batches.units.first + batches.units.count;
  for (const MovedUnit& unit : batches.moved) {
    if (unit.computed_by == part.rank) batches.computed.push_back(unit.unit);
    if (unit.home == part.rank) --last;
  }
  for (int unit = batches.units.first; unit < last; ++unit) batches.computed.push_back(unit);
}

}  // namespace babelring
