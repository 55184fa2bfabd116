#pragma once

#include <cstdint>
#include <limits>
#include <span>
#include <string_view>
#include <vector>

#include "nmt/core/tensor.h"
#include "nmt/ops/row_counters.h"

namespace babelring {

/// One Adam step over a flat range, in one pass. Source: Kingma and Ba 2015, algorithm 1, with bias correction;
/// decoupled weight decay (Loshchilov and Hutter 2019, algorithm 2).
///   g = min(1, clip_norm / norm) * gradient, where norm = sqrt(sum of squares)
///   m = b1 m + (1 - b1) g;  v = b2 v + (1 - b2) g^2
///   master -= learning_rate * (m / (1 - b1^t) / (sqrt(v / (1 - b2^t)) + eps) + weight_decay * master)
/// Nothing changes if the norm is not finite. With `rows`, the same pass counts what changed in each row of the
/// parameters; `compute` must hold the rounded masters before, too. Rows that are frozen are counted as not touched.
struct AdamUpdate {
  /// Treatment of an element: the full update, the update without weight decay, or none (master, m and v unchanged).
  enum Treatment : std::int32_t { decayed, not_decayed, frozen };
  static constexpr std::int64_t treatment_block = 64;  // elements that share one treatment
  /// Number of treatments of `count` elements.
  static constexpr std::int64_t treatments(std::int64_t count) {
    return (count + treatment_block - 1) / treatment_block;
  }

  /// The factor by which a gradient of this norm is multiplied; NaN if the norm is not finite: the update is skipped.
  static constexpr float clip_factor(double norm, double clip_norm) {
    if (!(norm <= std::numeric_limits<double>::max())) return std::numeric_limits<float>::quiet_NaN();
    return clip_norm > 0 && norm > clip_norm ? static_cast<float>(clip_norm / norm) : 1.0f;
  }

  Tensor master;          // [n] f32, updated
  ConstTensor gradient;   // [n] f32
  Tensor m, v;            // [n] f32, updated
  Tensor compute;         // [n] bf16, overwritten with the rounded master; absent in f32 mode
  ConstTensor treatment;  // [treatments(n)] i32; all decayed if absent
  ConstTensor squares;    // [any] f32: SquaredNorm's sums of the whole gradient; never clipped or skipped if absent
  RowCounters rows;       // for a range that begins at a block of the flat array; absent: nothing is counted
  double clip_norm = 0;   // 0: not clipped
  float learning_rate = 0;
  float beta1 = 0.9f, beta2 = 0.98f, eps = 1e-9f, weight_decay = 0;
  std::int64_t step = 1;  // t, starts at 1
  static constexpr std::string_view name = "adam_update";
  void check() const;
  static void fields(auto& op, auto&& f) {
    f.updates("master", op.master).reads("gradient", op.gradient).updates("m", op.m).updates("v", op.v);
    f.writes("compute", op.compute).reads("treatment", op.treatment).reads("squares", op.squares);
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
