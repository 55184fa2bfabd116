#pragma once

#include "nmt/ops/attention.h"
#include "nmt/ops/cuda/cuda_context.h"

/// Attention by tiles of rows in shared memory: bf16 matrix units, f32 softmax, and scores that never leave the
/// multiprocessor. One launch computes a batch. Each of a block's four warps takes 16 rows: together 64 rows of
/// one head, or all rows of a short sentence for two or four heads, so that blocks of short and of long sentences are
/// alike (attention_plan.h). The forward is online softmax (Dao 2023, FlashAttention-2) over tiles of keys. In the
/// backward a warp owns 16 keys: dk and dv are summed in registers, dq through shared memory. Of sentences with more
/// than 64 keys, other blocks compute dq once more from the scores. All sums have one order: no atomics, the same bits
/// every time.

namespace babelring::cuda {

/// True if the kernels support the op: bf16, heads of a multiple of 8 columns up to 128, rows at multiples of 16 bytes.
/// Sentences may have any number of rows.
bool fits_tile_attention(const AttentionForward& op);
bool fits_tile_attention(const AttentionBackward& op);

/// Computes the op. Requires fits_tile_attention(op).
void run_tiles(const AttentionForward& op, CudaContext& context);
void run_tiles(const AttentionBackward& op, CudaContext& context);

}  // namespace babelring::cuda
