#pragma once

#include <cstdint>
#include <deque>
#include <span>
#include <string_view>
#include <vector>

namespace babelring::cuda {

/// How attention is computed. `automatic`: by tiles (tile_attention.h) where they support the op, otherwise by batched
/// matmuls, which support everything.
enum class AttentionRoute { automatic, matmuls };

/// Parses a value of BABELRING_CUDA_ATTENTION: auto or matmuls; null means auto. Throws Failure for other values.
AttentionRoute attention_route(const char* value);
/// The route as written in BABELRING_CUDA_ATTENTION.
std::string_view name_of(AttentionRoute route);

/// Rows of a block of tile_attention.h, over its heads.
constexpr int tile_rows = 64;

/// The work of one block: a tile of a sentence's rows, for neighbouring heads. Part p is that of tile p / heads, from
/// head p % heads on. Up to 16 rows a block takes four heads, up to 32 two, else one. Sentence -1 is no work.
struct alignas(8) TileItem {
  std::int32_t sentence = -1, part = 0;
  bool operator==(const TileItem&) const = default;
};

/// The blocks of a forward pass: tiles of 64 queries. Long sentences come first. A pure function of the arguments;
/// `q_offsets` is [sentences + 1].
std::vector<TileItem> forward_items(std::span<const std::int32_t> q_offsets, int heads);
/// The blocks of a backward pass: tiles of 64 keys. In sentences of more than 64 keys tile 2 t is the keys' tile t, and
/// tile 2 t + 1 the queries' tile t, whose gradient needs all keys; in others a block's tile, 0, is for both.
std::vector<TileItem> backward_items(std::span<const std::int32_t> q_offsets, std::span<const std::int32_t> k_offsets,
                                     int heads);
/// Upper bounds of the number of items, whatever the lengths of the sentences are.
std::size_t max_forward_items(std::int64_t queries, std::int64_t sentences, int heads);
std::size_t max_backward_items(std::int64_t queries, std::int64_t keys, std::int64_t sentences, int heads);

/// The lists that a launch reads: offsets of queries, offsets of keys, and items (sentence, part), in one list. Lists
/// of other batches are never equal by chance, as items alone may be.
struct TilePlan {
  std::vector<std::int32_t> list;
  std::size_t sentences = 0, items = 0;
};

/// The plans of the last few batches: the layers of a pass ask for the same ones.
class TilePlans {
 public:
  /// Valid until the next call. `fixed_size`: items without work are added up to the bound, so that the size of the
  /// plan does not depend on the lengths of the sentences.
  const TilePlan& forward(std::span<const std::int32_t> q_offsets, std::span<const std::int32_t> k_offsets, int heads,
                          bool fixed_size);
  const TilePlan& backward(std::span<const std::int32_t> q_offsets, std::span<const std::int32_t> k_offsets, int heads,
                           bool fixed_size);

 private:
  struct Key {
    bool forward;
    int heads;
    bool fixed_size;
    bool operator==(const Key& other) const = default;
  };
  struct Known {
    Key key;
    TilePlan plan;
  };
  const TilePlan& find(const Key& key, std::span<const std::int32_t> q_offsets,
                       std::span<const std::int32_t> k_offsets);

  static constexpr std::size_t max_known = 8;
  std::deque<Known> known_;  // the newest last
};

/// Sentences whose attention is computed together, each padded to `queries` and `keys` rows, both multiples of 8.
struct AttentionGroup {
  std::int64_t first = 0, count = 0;  // range of AttentionPlan::order
  std::int64_t queries = 0, keys = 0;
};

/// All sentences, in groups for batched matmuls, which need equal sizes.
struct AttentionPlan {
  /// Max number of scores of a group, over heads and with padding. A single sentence may have more.
  static constexpr std::int64_t max_scores = std::int64_t{1} << 25;

  std::vector<std::int32_t> order;  // sentences, group by group
  std::vector<AttentionGroup> groups;
};

/// Rounds a length up to 8, 16, 24, 32, and above to powers of two and the midpoints between them. At least two thirds
/// of the result are used, and few sizes occur.
std::int64_t room_for(std::int64_t rows);

/// A pure function of the arguments; the offsets of packed queries and keys are [sentences + 1] each.
AttentionPlan plan_attention(std::span<const std::int32_t> q_offsets, std::span<const std::int32_t> k_offsets,
                             int heads);

}  // namespace babelring::cuda
