#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

namespace babelring::cuda {

/// How attention is computed. `automatic`: short sentences by our kernels, others by cuDNN if it supports them,
/// otherwise by batched matmuls. The other values force one route where it is possible, and fall back to matmuls, which
/// support everything.
enum class AttentionRoute { automatic, short_sentences, cudnn, matmuls };

/// Parses a value of BABELRING_CUDA_ATTENTION: auto, short, cudnn or matmuls; null means auto. Throws Failure for other
/// values.
AttentionRoute attention_route(const char* value);
/// The route as written in BABELRING_CUDA_ATTENTION.
std::string_view name_of(AttentionRoute route);

/// One launch of the kernels for short sentences (short_attention.h). It computes sentences of more than `above` and up
/// to `most` rows; its blocks have room for `most` rows.
struct ShortLaunch {
  int above = 0, most = 0;
  bool operator==(const ShortLaunch&) const = default;
};

/// The division of sentences between the kernels for short sentences and the other routes.
struct AttentionSplit {
  std::vector<ShortLaunch> launches;
  std::vector<std::int32_t> rest;  // sentences with more rows, ascending
};

/// Assigns sentences of up to max_rows rows to launches with room for 16, 32, 64, 128 or 256 rows. A size that fewer
/// than 1/8 of the sentences need is merged into the next larger one. A pure function of `offsets`, [sentences + 1].
AttentionSplit split_attention(std::span<const std::int32_t> offsets, int max_rows);

/// Sentences whose attention is computed together, each padded to `queries` and `keys` rows, both multiples of 8.
struct AttentionGroup {
  std::int64_t first = 0, count = 0;  // range of AttentionPlan::order
  std::int64_t queries = 0, keys = 0;
};

/// Groups of sentences for batched matmuls, which need equal sizes.
struct AttentionPlan {
  /// Max number of scores of a group, over heads and with padding. A single sentence may have more.
  static constexpr std::int64_t max_scores = std::int64_t{1} << 25;

  std::vector<std::int32_t> order;  // sentences, group by group
  std::vector<AttentionGroup> groups;
};

/// Rounds a length up to 8, 16, 24, 32, and above to powers of two and the midpoints between them. At least two thirds
/// of the result are used, and few sizes occur.
std::int64_t room_for(std::int64_t rows);

/// Plans the listed sentences. A pure function of the arguments; the offsets of packed queries and keys are
/// [all sentences + 1] each.
AttentionPlan plan_attention(std::span<const std::int32_t> q_offsets, std::span<const std::int32_t> k_offsets,
                             std::span<const std::int32_t> sentences, int heads);

}  // namespace babelring::cuda
