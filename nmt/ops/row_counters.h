#pragma once

#include <cstdint>

#include "nmt/core/tensor.h"

namespace babelring {

class OpCheck;

/// The counts of AdamUpdate for one row of the parameters. Every member is a sum over updates, or their max.
struct RowCount {
  std::int64_t changed_elements = 0;  // masters whose bits changed
  double ratios = 0;                  // sum of rms(change) / rms(masters before), over `measured` updates
  float max_ratio = 0;
  std::int32_t counted = 0;   // updates, without skipped ones
  std::int32_t changed = 0;   // updates that changed the bits of at least one master
  std::int32_t visible = 0;   // updates that changed at least one compute copy; `changed` if there are none
  std::int32_t touched = 0;   // updates in which at least one gradient was not zero
  std::int32_t measured = 0;  // updates before which at least one master was not zero

  bool operator==(const RowCount&) const = default;
};

/// The part of a row that lies in one block (SquaredNorm::block) of the flat array. Elements are counted from the
/// beginning of the block. A piece is followed by `padding` elements that belong to no row, then by the next piece.
struct RowPiece {
  std::int32_t row = 0;
  std::int32_t begin = 0, count = 0;
  std::int32_t padding = 0;
  std::int32_t part = 0, parts = 1;  // this piece is number `part` of the row's `parts` pieces
  std::int32_t first_part = 0;       // if there are several: index of the row's first RowPart
};

/// Sums over a piece in one update. The rank and thread that finishes a row's last piece adds the parts in order.
struct RowPart {
  double change = 0, weight = 0;  // sums of squares of the changes, and of the masters before
  std::int32_t changed_elements = 0;
  std::int32_t visible = 0, touched = 0;  // nonzero: true
  std::int32_t arrived = 0;               // of a row's first part: pieces that are finished in this update

  /// Adds the sums of a later piece.
  constexpr void add(const RowPart& later) {
    change += later.change, weight += later.weight;
    changed_elements += later.changed_elements;
    visible |= later.visible, touched |= later.touched;
  }
  /// Overwrites all but `arrived`.
  constexpr void set(const RowPart& sums) {
    change = sums.change, weight = sums.weight;
    changed_elements = sums.changed_elements;
    visible = sums.visible, touched = sums.touched;
  }
};

/// Adds an update to a row's counters. `ratio`: rms(change) / rms(masters before); unused if all masters were zero.
constexpr void count_update(RowCount& row, const RowPart& update, double ratio) {
  row.counted += 1;
  row.changed_elements += update.changed_elements;
  row.changed += update.changed_elements != 0 ? 1 : 0;
  row.visible += update.visible != 0 ? 1 : 0;
  row.touched += update.touched != 0 ? 1 : 0;
  if (update.weight == 0) return;
  row.measured += 1;
  row.ratios += ratio;
  row.max_ratio = row.max_ratio < static_cast<float>(ratio) ? static_cast<float>(ratio) : row.max_ratio;
}

/// Where AdamUpdate finds rows, and counts for them. Elements of structs are stored as i32 words. All tensors absent:
/// nothing is counted. Ranks that update parts of one array share `counts` and `parts`. Counts depend on neither the
/// number of threads nor the number of ranks.
struct RowCounters {
  template <class Element>
  static constexpr std::int64_t words = sizeof(Element) / sizeof(std::int32_t);

  ConstTensor blocks;  // [blocks of the updated range + 1] i32: block b has pieces blocks[b] to blocks[b + 1]
  ConstTensor pieces;  // [any, words<RowPiece>] i32, in the order of their elements; together they cover the range
  Tensor counts;       // [rows, words<RowCount>] i32, added to
  Tensor parts;        // [any, words<RowPart>] i32, overwritten; `arrived` is 0 before and after an update

  explicit operator bool() const { return counts.data != nullptr; }
  /// Requires the shapes above for a range of `range_blocks` blocks.
  void check(const OpCheck& check, std::int64_t range_blocks) const;
  static void fields(auto& rows, auto& f) {
    f.reads("row_blocks", rows.blocks).reads("row_pieces", rows.pieces);
    f.updates("row_counts", rows.counts).updates("row_parts", rows.parts);
  }
};

static_assert(RowCounters::words<RowCount> == 10 && RowCounters::words<RowPiece> == 7 &&
              RowCounters::words<RowPart> == 8);

}  // namespace babelring
