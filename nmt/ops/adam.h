#pragma once

#include <cstdint>
#include <limits>
#include <span>
#include <string_view>
#include <vector>

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
  static constexpr std::int64_t words = std::int64_t{sizeof(Element)} / 4;  // of 32 bits

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

/// One Adam step over a flat range, in one pass. Source: Kingma and Ba 2015, algorithm 1, with bias correction;
/// decoupled weight decay (Loshchilov and Hutter 2019, algorithm 2).
///   g = min(1, clip_norm / norm) * gradient, where norm = sqrt(sum of squares)
///   m = b1 m + (1 - b1) g;  v = b2 v + (1 - b2) g^2
///   master -= learning_rate * (m / (1 - b1^t) / (sqrt(v / (1 - b2^t)) + eps) + weight_decay * master)
///   average += average_rate * (master - average), with the new master
/// With `groups`, a block of elements has the learning rate and the weight decay of its group, as PyTorch's parameter
/// groups. Nothing changes if the norm is not finite. With `rows`, the same pass counts what changed in each row of the
/// parameters; `compute` must hold the rounded masters before, too. Rows that are frozen are counted as not touched.
struct AdamUpdate {
  /// Elements that are updated alike.
  struct Group {
    float rate_factor = 1;  // of learning_rate
    float weight_decay = 0;

    bool operator==(const Group&) const = default;
  };
  static constexpr std::int32_t frozen = -1;       // no group: master, m, v and average stay
  static constexpr std::int64_t group_block = 64;  // elements that share one group
  /// Number of group_blocks of `count` elements.
  static constexpr std::int64_t group_blocks(std::int64_t count) { return (count + group_block - 1) / group_block; }

  /// The factor by which a gradient of this norm is multiplied; NaN if the norm is not finite: the update is skipped.
  static constexpr float clip_factor(double norm, double clip_norm) {
    if (!(norm <= std::numeric_limits<double>::max())) return std::numeric_limits<float>::quiet_NaN();
    return clip_norm > 0 && norm > clip_norm ? static_cast<float>(clip_norm / norm) : 1.0f;
  }

  Tensor master;         // [n] f32, updated
  ConstTensor gradient;  // [n] f32
  Tensor m, v;           // [n] f32, updated
  Tensor compute;        // [n] bf16, overwritten with the rounded master; absent in f32 mode
  ConstTensor group;     // [group_blocks(n)] i32: index in `groups`, or frozen; absent: no groups
  ConstTensor groups;    // [any, 2] f32: Groups; absent: no groups
  ConstTensor squares;   // [any] f32: SquaredNorm's sums of the whole gradient; never clipped or skipped if absent
  RowCounters rows;      // for a range that begins at a block of the flat array; absent: nothing is counted
  Tensor average = {};   // [n] f32, updated: the moving average of the master; absent: none
  double clip_norm = 0;  // 0: not clipped
  float learning_rate = 0;
  float beta1 = 0.9f, beta2 = 0.98f, eps = 1e-9f;
  float weight_decay = 0;  // unused with groups
  float average_rate = 0;  // 1 - decay of the average
  std::int64_t step = 1;   // t, starts at 1
  static constexpr std::string_view name = "adam_update";
  void check() const;
  static void fields(auto& op, auto&& f) {
    f.updates("master", op.master).reads("gradient", op.gradient).updates("m", op.m).updates("v", op.v);
    f.writes("compute", op.compute).reads("group", op.group).reads("groups", op.groups).reads("squares", op.squares);
    f.updates("average", op.average);
    RowCounters::fields(op.rows, f);
  }
};

/// sums[b] = sum of squares of block b of x, accumulated in double in a fixed order. A non-finite element gives a
/// non-finite sum. Sums are per block, so that ranks that each hold some of the blocks compute the same norm as one
/// rank that holds all.
struct SquaredNorm {
  static constexpr std::int64_t block = 16384;  // elements per block; the last block may be shorter
  /// Number of blocks of `count` elements.
  static constexpr std::int64_t blocks(std::int64_t count) { return (count + block - 1) / block; }
  /// The norm of all elements whose sums of squares these are; not finite if a sum is not.
  static double norm(std::span<const float> sums);

  ConstTensor x;  // any shape, contiguous, f32
  Tensor sums;    // [blocks(elements of x)] f32
  static constexpr std::string_view name = "squared_norm";
  void check() const;
  static void fields(auto& op, auto&& f) { f.reads("x", op.x).writes("sums", op.sums); }
};

/// sum = parts[0] + parts[1] + …, element by element in this order, and SquaredNorm of the sum, in one pass. For a rank
/// that updates a range whose gradient is the sum over all ranks.
struct SumWithNorm {
  std::vector<ConstTensor> parts;  // at least one, each [n] f32
  Tensor sum;                      // [n] f32; may alias parts
  Tensor norms;                    // [SquaredNorm::blocks(n)] f32
  static constexpr std::string_view name = "sum_with_norm";
  void check() const;
  static void fields(auto& op, auto&& f) {
    for (auto& part : op.parts) f.reads("parts", part);
    f.writes("sum", op.sum).writes("norms", op.norms);
  }
};

}  // namespace babelring
