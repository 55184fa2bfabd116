#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace babelring::cuda {

/// Sentences whose attention is computed together, each in room for `queries` and `keys` rows, both multiples of 8.
struct AttentionGroup {
  std::int64_t first = 0, count = 0;  // of AttentionPlan::order
  std::int64_t queries = 0, keys = 0;
};

/// Batched products want equal sizes: sentences that need the same room are computed together.
struct AttentionPlan {
  /// So many elements of scores, over heads and with what fills up, are in memory at once; a single sentence may need
  /// more.
  static constexpr std::int64_t most_scores = std::int64_t{1} << 25;

  std::vector<std::int32_t> order;  // sentences, group by group
  std::vector<AttentionGroup> groups;
};

/// Room for a length: 8, 16, 24, 32, then powers of two and halfway between them. At least two thirds are used, so
/// that few sizes serve all.
std::int64_t room_for(std::int64_t rows);

/// A pure function of the offsets of packed queries and keys, both [sentences + 1].
AttentionPlan plan_attention(std::span<const std::int32_t> q_offsets, std::span<const std::int32_t> k_offsets,
                             int heads);

}  // namespace babelring::cuda
