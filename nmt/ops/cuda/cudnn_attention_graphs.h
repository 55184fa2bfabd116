#pragma once

#include "nmt/ops/cuda/cudnn_graph.h"
#include "nmt/ops/cuda/cudnn_plans.h"

namespace babelring::cuda {

/// Numbers of tensors in memory: 1, 2, … for the rows of each value of Packed, first_starts + 1, first_starts + 2, …
/// for the first elements of their sentences, and these for the others.
namespace cudnn_number {
inline constexpr std::int64_t first_starts = 100;
inline constexpr std::int64_t query_lengths = 200, key_lengths = 201;
inline constexpr std::int64_t scale = 300, minus_infinity = 301, one = 302;  // scalars
/// Scratch memory of backward: sums of out * dout over a head, [sentences, heads, length, 1] f32.
inline constexpr std::int64_t row_sums = 400;
}  // namespace cudnn_number

/// The graphs of AttentionForward and AttentionBackward without dropout, built from the operations that cuDNN's
/// attention engines recognize (docs/design/cuda.md lists the plans found).
CudnnGraph attention_forward_graph(const CudnnLibrary& library, const CudnnShape& shape);
CudnnGraph attention_backward_graph(const CudnnLibrary& library, const CudnnShape& shape);

/// The size of row_sums in bytes.
std::int64_t row_sums_bytes(const CudnnShape& shape);

}  // namespace babelring::cuda
