#pragma once

#include <cstdint>

#include "nmt/ops/attention.h"
#include "nmt/ops/cpu/cpu_context.h"

/// The two ways to run attention; run(op, workspace) takes the second where it can. Results of both are the same within
/// the rounding of bf16.
namespace babelring::cpu::BABELRING_KERNEL_SET {

/// Products in f32, in vector registers: any processor, both types.
void run_vectors(const AttentionForward& op, CpuContext& workspace);
void run_vectors(const AttentionBackward& op, CpuContext& workspace);

/// The widest head that run_tiles takes.
inline constexpr std::int64_t widest_tiled_head = 2048;

/// Whether run_tiles can be used.
template <class Op>
bool fits_tiles(const Op& op, const CpuContext& context) {
  return context.tiles() && op.q.dtype == DType::bf16 && op.q.shape[1] / op.heads <= widest_tiled_head;
}

/// Products of bf16 in matrix tiles; needs fits_tiles(op). Scores and sums are f32; probabilities
/// and gradients of scores are rounded to bf16 before they are multiplied.
void run_tiles(const AttentionForward& op, CpuContext& workspace);
void run_tiles(const AttentionBackward& op, CpuContext& workspace);

}  // namespace babelring::cpu::BABELRING_KERNEL_SET
