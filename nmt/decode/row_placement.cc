#include "nmt/decode/row_placement.h"

#include <cstddef>

namespace babelring {

RowPlacement place_rows(std::span<const std::int32_t> parent_rows) {
  constexpr std::int32_t unplaced = -1;
  const std::size_t count = parent_rows.size();
  RowPlacement placement{.rows = std::vector<std::int32_t>(count, unplaced), .moves = {}};
  std::vector<bool> taken(count, false);
  for (std::size_t i = 0; i < count; ++i) {
    const auto parent = static_cast<std::size_t>(parent_rows[i]);
    if (parent >= count || taken[parent]) continue;
    taken[parent] = true;
    placement.rows[i] = parent_rows[i];
  }
  std::size_t free_row = 0;
  for (std::size_t i = 0; i < count; ++i) {
    if (placement.rows[i] != unplaced) continue;
    while (taken[free_row]) ++free_row;
    taken[free_row] = true;
    placement.rows[i] = static_cast<std::int32_t>(free_row);
    placement.moves.push_back({parent_rows[i], placement.rows[i]});
  }
  return placement;
}

}  // namespace babelring
