#pragma once

#include <span>

#include "nmt/ops/attention.h"
#include "nmt/ops/cuda/attention_plan.h"
#include "nmt/ops/cuda/cuda_context.h"

/// Attention for short sentences: one block for each sentence and head, bf16 matrix units, f32 softmax, and scores that
/// never leave the multiprocessor. The forward is online softmax in steps of 32 keys (16 in blocks of one warp)
/// (Dao 2023, FlashAttention-2); in the backward each warp owns 16 keys, so that dk and dv are summed in registers and
/// dq through shared memory, all in one order: no atomics, the same bits every time.
///
/// Predicted, not measured (H200, transformer-base at 25,000 tokens in sentences of about 30: 512 columns, 8 heads):
/// the forward reads q, k, v and writes out, 102 MB, 21 us at 4.8 TB/s; the backward reads q, k, v, out, dout and
/// writes dq, dk, dv, 205 MB, 43 us. The matrix units need 1.5 and 3.8 GFLOP, padded to sixteens about twice that,
/// under 10 us; exponentials and dropout's hashes about 10 us, beside the copies of other blocks. So memory bounds
/// both: 30 us and 60 us are expected, 1.6 ms for the 18 of an update. Batched matmuls, with copies of operands and
/// scores in memory, move about three times as much by some eight launches.
namespace babelring::cuda {

/// True if the kernels support the op: bf16, heads of a multiple of 8 columns up to 128, rows at multiples of 16 bytes.
bool fits_short_attention(const AttentionForward& op);
bool fits_short_attention(const AttentionBackward& op);

/// Max rows of a sentence on the current device, of queries in forward and of keys in backward: 256 or as many as its
/// shared memory holds, 128 for heads wider than 64. The other side may have any number of rows.
int max_short_rows(std::int64_t head_width);

/// Computes the sentences of the launches; rows of other sentences do not change. Requires fits_short_attention(op).
void run_short(const AttentionForward& op, std::span<const ShortLaunch> launches, CudaContext& context);
void run_short(const AttentionBackward& op, std::span<const ShortLaunch> launches, CudaContext& context);

}  // namespace babelring::cuda
