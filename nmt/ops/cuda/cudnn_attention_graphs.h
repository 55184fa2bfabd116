#pragma once

#include "nmt/ops/cuda/cudnn_graph.h"
#include "nmt/ops/cuda/cudnn_plans.h"

namespace babelring::cuda {

/// The numbers of tensors in memory: 1, 2, … for the rows of each Packed, first_starts + 1, first_starts + 2, … for
/// where their sentences begin, and these for the rest.
namespace cudnn_number {
inline constexpr std::int64_t first_starts = 100;
inline constexpr std::int64_t query_lengths = 200, key_lengths = 201;
inline constexpr std::int64_t scale = 300, minus_infinity = 301, one = 302;  // scalars
/// Scratch of the backward: sums of out * dout over a head, [sentences, heads, length, 1] f32.
inline constexpr std::int64_t row_sums = 400;
}  // namespace cudnn_number

/// The graphs of AttentionForward and AttentionBackward without dropout, in the operations that cuDNN's engines for
/// attention look for (docs/design/cuda.md lists the plans seen).
CudnnGraph attention_forward_graph(const CudnnLibrary& library, const CudnnShape& shape);
CudnnGraph attention_backward_graph(const CudnnLibrary& library, const CudnnShape& shape);

/// Bytes of row_sums.
std::int64_t row_sums_bytes(const CudnnShape& shape);

}  // namespace babelring::cuda
