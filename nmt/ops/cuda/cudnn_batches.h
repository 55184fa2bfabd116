#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "nmt/ops/cuda/cudnn_plans.h"

namespace babelring::cuda {

/// Sentences that one cuDNN plan computes together, padded to `sentences` sentences of `length` queries and keys.
struct CudnnBatch {
  std::int64_t sentences = 0, length = 0;
  std::vector<std::int32_t> members;  // ascending
};

/// Max number of scores of one run, over heads and with padding; bounds the workspace. A single sentence may have more.
inline constexpr std::int64_t max_cudnn_scores = std::int64_t{1} << 27;

/// Groups the listed sentences, ascending, by the power of two above their longer side. Few sizes occur, because a plan
/// takes a second to make. A pure function of the arguments; the offsets of packed queries and keys are
/// [all sentences + 1] each. Sentences without queries and keys are left out.
std::vector<CudnnBatch> cudnn_batches(std::span<const std::int32_t> q_offsets, std::span<const std::int32_t> k_offsets,
                                      std::span<const std::int32_t> sentences, std::int64_t heads);

/// True if a listed sentence has queries but no keys, or keys but no queries, which cuDNN does not support.
bool one_side_is_empty(std::span<const std::int32_t> q_offsets, std::span<const std::int32_t> k_offsets,
                       std::span<const std::int32_t> sentences);

/// The lists that a run of a batch reads: the first element of each sentence for each value of Packed, then the lengths
/// of queries and of keys. Each list has cudnn_list_length() elements. Padding sentences have length 0 and begin where
/// the last sentence ends.
std::vector<std::int32_t> cudnn_lists(const CudnnShape& shape, std::span<const std::int32_t> members,
                                      std::span<const std::int32_t> q_offsets, std::span<const std::int32_t> k_offsets);
/// sentences + 1, rounded up so that every list begins at a multiple of 16 bytes.
constexpr std::int64_t cudnn_list_length(std::int64_t sentences) {
  return (sentences + 4) / 4 * 4;
}

}  // namespace babelring::cuda
