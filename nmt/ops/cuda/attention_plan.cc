#include "nmt/ops/cuda/attention_plan.h"

#include <algorithm>
#include <array>
#include <bit>
#include <utility>

#include "base/failure.h"

namespace babelring::cuda {

namespace {

constexpr std::array<std::pair<std::string_view, AttentionRoute>, 4> attention_routes = {
    {{"auto", AttentionRoute::automatic},
     {"short", AttentionRoute::short_sentences},
     {"cudnn", AttentionRoute::cudnn},
     {"matmuls", AttentionRoute::matmuls}}};

}  // namespace

AttentionRoute attention_route(const char* value) {
  if (value == nullptr) return AttentionRoute::automatic;
  const std::string_view wanted = value;
  const auto* found = std::find_if(attention_routes.begin(), attention_routes.end(),
                                   [&](const auto& route) { return route.first == wanted; });
  if (found != attention_routes.end()) return found->second;
  fail("BABELRING_CUDA_ATTENTION is {}, auto, short, cudnn or matmuls is needed", wanted);
}

std::string_view name_of(AttentionRoute route) {
  const auto* found = std::find_if(attention_routes.begin(), attention_routes.end(),
                                   [&](const auto& each) { return each.second == route; });
  return found->first;
}

AttentionSplit split_attention(std::span<const std::int32_t> offsets, int max_rows) {
  constexpr std::array rooms = {16, 32, 64, 128, 256};
  constexpr std::int64_t min_share = 8;  // one sentence in eight
  std::array<std::int64_t, rooms.size()> wanting{};
  AttentionSplit split;
  for (std::size_t s = 0; s + 1 < offsets.size(); ++s) {
    const std::int32_t rows = offsets[s + 1] - offsets[s];
    if (rows > max_rows) {
      split.rest.push_back(static_cast<std::int32_t>(s));
    } else {
      ++wanting[static_cast<std::size_t>(std::lower_bound(rooms.begin(), rooms.end(), rows) - rooms.begin())];
    }
  }
  const auto all = std::ssize(offsets) - 1 - std::ssize(split.rest);
  std::int64_t waiting = 0, left = all;
  int above = -1;
  for (std::size_t i = 0; i < rooms.size(); ++i) {
    waiting += wanting[i], left -= wanting[i];
    if (waiting == 0 || (waiting * min_share < all && left > 0)) continue;
    split.launches.push_back({.above = above, .most = rooms[i]});
    above = rooms[i], waiting = 0;
  }
  return split;
}

std::int64_t room_for(std::int64_t rows) {
  if (rows <= 32) return std::max<std::int64_t>(8, (rows + 7) / 8 * 8);
  const auto power = static_cast<std::int64_t>(std::bit_ceil(static_cast<std::uint64_t>(rows)));
  return rows <= power / 4 * 3 ? power / 4 * 3 : power;
}

AttentionPlan plan_attention(std::span<const std::int32_t> q_offsets, std::span<const std::int32_t> k_offsets,
                             std::span<const std::int32_t> sentences, int heads) {
  AttentionPlan plan{.order{sentences.begin(), sentences.end()}, .groups{}};
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
