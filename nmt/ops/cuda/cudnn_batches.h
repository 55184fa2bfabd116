#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "nmt/ops/cuda/cudnn_plans.h"

namespace babelring::cuda {

/// Sentences that one plan of cuDNN's takes at once, with room for `sentences` of `length` queries and keys each.
struct CudnnBatch {
  std::int64_t sentences = 0, length = 0;
  std::vector<std::int32_t> members;  // ascending
};

/// Most scores of one run, over heads and with padding, which bounds a plan's workspace. A single sentence may need
/// more.
inline constexpr std::int64_t max_cudnn_scores = std::int64_t{1} << 27;

/// The listed sentences, ascending, by powers of two of their longer side: a plan takes a second to make, so few sizes
/// serve all. A pure function of the offsets of packed queries and keys, both [sentences + 1]. Sentences with neither
/// queries nor keys are left out.
std::vector<CudnnBatch> cudnn_batches(std::span<const std::int32_t> q_offsets, std::span<const std::int32_t> k_offsets,
                                      std::span<const std::int32_t> sentences, std::int64_t heads);

/// Whether a listed sentence has queries and no keys, or keys and no queries, which cuDNN is not asked for.
bool one_side_is_empty(std::span<const std::int32_t> q_offsets, std::span<const std::int32_t> k_offsets,
                       std::span<const std::int32_t> sentences);

/// What a run of a batch reads besides rows: where sentences begin in each of Packed, then the lengths of queries and
/// of keys, lists of cudnn_list_length elements each. Room that no sentence takes has length 0 and begins where the
/// last one ends.
std::vector<std::int32_t> cudnn_lists(const CudnnShape& shape, std::span<const std::int32_t> members,
                                      std::span<const std::int32_t> q_offsets, std::span<const std::int32_t> k_offsets);
/// sentences + 1, filled up so that every list begins at a multiple of 16 bytes.
constexpr std::int64_t cudnn_list_length(std::int64_t sentences) {
  return (sentences + 4) / 4 * 4;
}

}  // namespace babelring::cuda
