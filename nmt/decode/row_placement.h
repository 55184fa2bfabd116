#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace babelring {

/// A cache row copied to another.
struct RowMove {
  std::int32_t from = 0, to = 0;
  bool operator==(const RowMove&) const = default;
};

/// Where the next hypotheses keep their cache rows.
struct RowPlacement {
  std::vector<std::int32_t> rows;  // of each hypothesis, a permutation of [0, hypotheses)
  std::vector<RowMove> moves;      // no row is both read and written, so any order will do
};

/// Places n hypotheses into rows [0, n), given the row of each one's parent, with the fewest copies: the first child of
/// a parent inherits its row, further children and parents beyond n are copied to rows nobody needs. Serves growth (one
/// <s> a sentence becomes a beam), reordering and shrinking alike.
RowPlacement place_rows(std::span<const std::int32_t> parent_rows);

}  // namespace babelring
