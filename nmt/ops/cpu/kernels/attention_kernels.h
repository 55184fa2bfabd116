#pragma once

#include <cstdint>

#include "nmt/ops/attention.h"
#include "nmt/ops/cpu/cpu_context.h"

/// The two implementations of attention. run() uses the second if it supports the op. Their results are equal up to the
/// rounding of bf16.
namespace babelring::cpu::BABELRING_KERNEL_SET {

/// Computes in f32 in vector registers. Supports all processors and both types.
void run_vectors(const AttentionForward& op, CpuContext& context);
void run_vectors(const AttentionBackward& op, CpuContext& context);

/// The widest head that run_tiles() supports.
inline constexpr std::int64_t widest_tiled_head = 2048;

/// True if run_tiles() supports the op.
template <class Op>
bool fits_tiles(const Op& op, const CpuContext& context) {
  return context.tiles() && op.q.dtype == DType::bf16 && op.q.shape[1] / op.heads <= widest_tiled_head;
}

/// Computes bf16 matmuls in matrix tiles. Requires fits_tiles(op). Scores and sums are f32; probabilities and gradients
/// of scores are rounded to bf16 before they are multiplied.
void run_tiles(const AttentionForward& op, CpuContext& context);
void run_tiles(const AttentionBackward& op, CpuContext& context);

}  // namespace babelring::cpu::BABELRING_KERNEL_SET
