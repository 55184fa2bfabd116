#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

namespace babelring::cuda {

/// How attention is computed. `automatic`: short sentences by our kernels, the rest by cuDNN where it can, else by
/// batched products. Each of the others forces one way where that is possible; batched products always are.
enum class AttentionRoute { automatic, short_sentences, cudnn, products };

/// Of the environment's BABELRING_CUDA_ATTENTION: auto, short, cudnn or products; null is auto. Throws Failure.
AttentionRoute attention_route(const char* value);
/// As the environment spells it.
std::string_view name_of(AttentionRoute route);

/// One launch of the kernels for short sentences (short_attention.h): it takes sentences of more than `above` and up to
/// `most` rows, for which its blocks have room.
struct ShortLaunch {
  int above = 0, most = 0;
  bool operator==(const ShortLaunch&) const = default;
};

/// Who computes which sentences.
struct AttentionSplit {
  std::vector<ShortLaunch> launches;
  std::vector<std::int32_t> rest;  // ascending: those of more rows
};

/// Sentences of up to max_rows rows go to blocks with room for 16, 32, 64, 128 or 256 rows; where fewer than an eighth
/// of the sentences want a room, they get the next larger one. A pure function of the offsets [sentences + 1].
AttentionSplit split_attention(std::span<const std::int32_t> offsets, int max_rows);

/// Sentences whose attention is computed together, each in room for `queries` and `keys` rows, both multiples of 8.
struct AttentionGroup {
  std::int64_t first = 0, count = 0;  // of AttentionPlan::order
  std::int64_t queries = 0, keys = 0;
};

/// Batched products want equal sizes: sentences that need the same room are computed together.
struct AttentionPlan {
  /// Most scores, over heads and with padding, that are in memory at once; a single sentence may need more.
  static constexpr std::int64_t max_scores = std::int64_t{1} << 25;

  std::vector<std::int32_t> order;  // sentences, group by group
  std::vector<AttentionGroup> groups;
};

/// Room for a length: 8, 16, 24, 32, then powers of two and halfway between them. At least two thirds are used, so
/// that few sizes serve all.
std::int64_t room_for(std::int64_t rows);

/// For the sentences listed: a pure function of the offsets of packed queries and keys, both [all sentences + 1].
AttentionPlan plan_attention(std::span<const std::int32_t> q_offsets, std::span<const std::int32_t> k_offsets,
                             std::span<const std::int32_t> sentences, int heads);

}  // namespace babelring::cuda
