#include "nmt/ops/cuda/attention_plan.h"

#include <algorithm>
#include <array>
#include <bit>
#include <limits>
#include <numeric>
#include <utility>

#include "base/failure.h"

namespace babelring::cuda {

namespace {

constexpr std::array<std::pair<std::string_view, AttentionRoute>, 2> attention_routes = {
    {{"auto", AttentionRoute::automatic}, {"matmuls", AttentionRoute::matmuls}}};

std::int32_t rows_of(std::span<const std::int32_t> offsets, std::size_t sentence) {
  return offsets[sentence + 1] - offsets[sentence];
}
std::int32_t tiles_of(std::int32_t rows) {
  return (rows + tile_rows - 1) / tile_rows;
}
int heads_of_block(std::int32_t rows) {
  return rows <= tile_rows / 4 ? 4 : rows <= tile_rows / 2 ? 2 : 1;
}

/// Calls add(sentence) for all sentences, by size: those of more than 64 rows, then those of up to 64, 32 and 16.
template <class Add>
void by_size(std::span<const std::int32_t> offsets, const Add& add) {
  constexpr std::array bounds = {std::numeric_limits<std::int32_t>::max(), tile_rows, tile_rows / 2, tile_rows / 4, -1};
  for (std::size_t size = 0; size + 1 < bounds.size(); ++size) {
    for (std::size_t s = 0; s + 1 < offsets.size(); ++s) {
      const std::int32_t rows = rows_of(offsets, s);
      if (rows <= bounds[size] && rows > bounds[size + 1]) add(s);
    }
  }
}

}  // namespace

AttentionRoute attention_route(const char* value) {
  if (value == nullptr) return AttentionRoute::automatic;
  const std::string_view wanted = value;
  const auto* found = std::find_if(attention_routes.begin(), attention_routes.end(),
                                   [&](const auto& route) { return route.first == wanted; });
  if (found != attention_routes.end()) return found->second;
  fail("BABELRING_CUDA_ATTENTION is {}, auto or matmuls is needed", wanted);
}

std::string_view name_of(AttentionRoute route) {
  const auto* found = std::find_if(attention_routes.begin(), attention_routes.end(),
                                   [&](const auto& each) { return each.second == route; });
  return found->first;
}

std::vector<TileItem> forward_items(std::span<const std::int32_t> q_offsets, int heads) {
  std::vector<TileItem> items;
  by_size(q_offsets, [&](std::size_t s) {
    const std::int32_t rows = rows_of(q_offsets, s);
    for (std::int32_t tile = 0; tile < tiles_of(rows); ++tile) {
      for (int head = 0; head < heads; head += heads_of_block(rows)) {
        items.push_back({.sentence = static_cast<std::int32_t>(s), .part = tile * heads + head});
      }
    }
  });
  return items;
}

std::vector<TileItem> backward_items(std::span<const std::int32_t> q_offsets, std::span<const std::int32_t> k_offsets,
                                     int heads) {
  std::vector<TileItem> items;
  by_size(k_offsets, [&](std::size_t s) {
    const std::int32_t keys = rows_of(k_offsets, s), queries = rows_of(q_offsets, s);
    const auto add = [&](std::int32_t tile) {
      for (int head = 0; head < heads; head += heads_of_block(keys)) {
        items.push_back({.sentence = static_cast<std::int32_t>(s), .part = tile * heads + head});
      }
    };
    if (keys <= tile_rows) {
      if (keys > 0 || queries > 0) add(0);
      return;
    }
    for (std::int32_t tile = 0; tile < tiles_of(keys); ++tile) add(2 * tile);
    for (std::int32_t tile = 0; tile < tiles_of(queries); ++tile) add(2 * tile + 1);
  });
  return items;
}

std::size_t max_forward_items(std::int64_t queries, std::int64_t sentences, int heads) {
  // A sentence of r rows has at most r / 32 tiles if r > 32. Shorter ones have one tile, for two or four heads.
  const std::int64_t of_short = (heads + 3) / 4;
  return static_cast<std::size_t>(sentences * of_short + heads * ((queries + 31) / 32));
}

std::size_t max_backward_items(std::int64_t queries, std::int64_t keys, std::int64_t sentences, int heads) {
  // Sentences of more than 64 keys, of which there are fewer than keys / 64, have tiles of queries as well.
  return max_forward_items(keys, sentences, heads) +
         static_cast<std::size_t>(heads * ((queries + tile_rows - 1) / tile_rows + keys / tile_rows));
}

const TilePlan& TilePlans::find(const Key& key, std::span<const std::int32_t> q_offsets,
                                std::span<const std::int32_t> k_offsets) {
  const auto begins_with_offsets = [&](const std::vector<std::int32_t>& list) {
    return std::equal(q_offsets.begin(), q_offsets.end(), list.begin()) &&
           std::equal(k_offsets.begin(), k_offsets.end(), list.begin() + std::ssize(q_offsets));
  };
  const std::size_t sentences = q_offsets.size() - 1;
  for (const Known& known : known_) {
    if (known.key == key && known.plan.sentences == sentences && begins_with_offsets(known.plan.list))
      return known.plan;
  }
  std::vector<TileItem> items =
      key.forward ? forward_items(q_offsets, key.heads) : backward_items(q_offsets, k_offsets, key.heads);
  if (key.fixed_size) {
    const auto count = static_cast<std::int64_t>(sentences);
    items.resize(key.forward ? max_forward_items(q_offsets.back(), count, key.heads)
                             : max_backward_items(q_offsets.back(), k_offsets.back(), count, key.heads));
  }
  TilePlan plan{.list{q_offsets.begin(), q_offsets.end()}, .sentences = sentences, .items = items.size()};
  plan.list.insert(plan.list.end(), k_offsets.begin(), k_offsets.end());
  for (const TileItem& item : items) plan.list.insert(plan.list.end(), {item.sentence, item.part});
  if (known_.size() == max_known) known_.pop_front();
  return known_.emplace_back(Known{.key = key, .plan = std::move(plan)}).plan;
}

const TilePlan& TilePlans::forward(std::span<const std::int32_t> q_offsets, std::span<const std::int32_t> k_offsets,
                                   int heads, bool fixed_size) {
  return find({.forward = true, .heads = heads, .fixed_size = fixed_size}, q_offsets, k_offsets);
}

const TilePlan& TilePlans::backward(std::span<const std::int32_t> q_offsets, std::span<const std::int32_t> k_offsets,
                                    int heads, bool fixed_size) {
  return find({.forward = false, .heads = heads, .fixed_size = fixed_size}, q_offsets, k_offsets);
}

std::int64_t room_for(std::int64_t rows) {
  if (rows <= 32) return std::max<std::int64_t>(8, (rows + 7) / 8 * 8);
  const auto power = static_cast<std::int64_t>(std::bit_ceil(static_cast<std::uint64_t>(rows)));
  return rows <= power / 4 * 3 ? power / 4 * 3 : power;
}

AttentionPlan plan_attention(std::span<const std::int32_t> q_offsets, std::span<const std::int32_t> k_offsets,
                             int heads) {
  AttentionPlan plan{.order = std::vector<std::int32_t>(q_offsets.size() - 1), .groups{}};
  std::iota(plan.order.begin(), plan.order.end(), 0);
  const auto room = [&](std::int32_t sentence) {  // of keys and queries
    const auto s = static_cast<std::size_t>(sentence);
    return std::pair(room_for(k_offsets[s + 1] - k_offsets[s]), room_for(q_offsets[s + 1] - q_offsets[s]));
  };
  std::stable_sort(plan.order.begin(), plan.order.end(),
                   [&](std::int32_t a, std::int32_t b) { return room(a) > room(b); });
  for (std::int64_t place = 0; place < std::ssize(plan.order); ++place) {
    const auto [keys, queries] = room(plan.order[static_cast<std::size_t>(place)]);
    if (!plan.groups.empty()) {
      AttentionGroup& last = plan.groups.back();
      const bool fits = (last.count + 1) * heads * queries * keys <= AttentionPlan::max_scores;
      if (fits && last.queries == queries && last.keys == keys) {
        ++last.count;
        continue;
      }
    }
    plan.groups.push_back({.first = place, .count = 1, .queries = queries, .keys = keys});
  }
  return plan;
}

}  // namespace babelring::cuda
