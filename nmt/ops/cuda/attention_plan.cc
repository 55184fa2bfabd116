#include "nmt/ops/cuda/attention_plan.h"

#include <algorithm>
#include <bit>
#include <utility>

namespace babelring::cuda {

std::int64_t room_for(std::int64_t rows) {
  if (rows <= 32) return std::max<std::int64_t>(8, (rows + 7) / 8 * 8);
  const auto power = static_cast<std::int64_t>(std::bit_ceil(static_cast<std::uint64_t>(rows)));
  return rows <= power / 4 * 3 ? power / 4 * 3 : power;
}

AttentionPlan plan_attention(std::span<const std::int32_t> q_offsets, std::span<const std::int32_t> k_offsets,
                             int heads) {
  std::vector<std::pair<std::int64_t, std::int64_t>> rooms;  // of keys and queries
  AttentionPlan plan;
  for (std::size_t s = 0; s + 1 < q_offsets.size(); ++s) {
    rooms.emplace_back(room_for(k_offsets[s + 1] - k_offsets[s]), room_for(q_offsets[s + 1] - q_offsets[s]));
    plan.order.push_back(static_cast<std::int32_t>(s));
  }
  const auto room = [&](std::int32_t sentence) { return rooms[static_cast<std::size_t>(sentence)]; };
  std::stable_sort(plan.order.begin(), plan.order.end(),
                   [&](std::int32_t a, std::int32_t b) { return room(a) > room(b); });
  for (std::int64_t place = 0; place < std::ssize(plan.order); ++place) {
    const auto [keys, queries] = room(plan.order[static_cast<std::size_t>(place)]);
    if (!plan.groups.empty()) {
      AttentionGroup& last = plan.groups.back();
      const bool fits = (last.count + 1) * heads * queries * keys <= AttentionPlan::most_scores;
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
