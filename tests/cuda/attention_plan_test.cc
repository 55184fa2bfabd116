#include "nmt/ops/cuda/attention_plan.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "nmt/core/random.h"

namespace babelring::cuda {
namespace {

using Offsets = std::vector<std::int32_t>;

Offsets offsets_of(const std::vector<std::int32_t>& lengths) {
  Offsets offsets = {0};
  for (const std::int32_t length : lengths) offsets.push_back(offsets.back() + length);
  return offsets;
}

std::int64_t length(const Offsets& offsets, std::int32_t sentence) {
  const auto s = static_cast<std::size_t>(sentence);
  return offsets[s + 1] - offsets[s];
}

/// Every sentence is in one group, which has room for it.
void expect_complete(const AttentionPlan& plan, const Offsets& q, const Offsets& k, int heads) {
  ASSERT_EQ(plan.order.size() + 1, q.size());
  EXPECT_EQ(std::set<std::int32_t>(plan.order.begin(), plan.order.end()).size(), plan.order.size());
  std::int64_t next = 0;
  for (const AttentionGroup& group : plan.groups) {
    EXPECT_EQ(group.first, next);
    EXPECT_GT(group.count, 0);
    next += group.count;
    EXPECT_EQ(group.queries % 8, 0);
    EXPECT_EQ(group.keys % 8, 0);
    const std::int64_t scores = group.count * heads * group.queries * group.keys;
    EXPECT_TRUE(group.count == 1 || scores <= AttentionPlan::most_scores) << scores;
    for (std::int64_t place = group.first; place < next; ++place) {
      const std::int32_t sentence = plan.order[static_cast<std::size_t>(place)];
      EXPECT_EQ(room_for(length(q, sentence)), group.queries);
      EXPECT_EQ(room_for(length(k, sentence)), group.keys);
    }
  }
  EXPECT_EQ(next, std::ssize(plan.order));
}

TEST(RoomFor, IsEnoughInMultiplesOfEightWithAThirdToSpareAtMost) {
  for (std::int64_t rows = 1; rows <= 5000; ++rows) {
    const std::int64_t room = room_for(rows);
    EXPECT_GE(room, rows);
    EXPECT_EQ(room % 8, 0);
    EXPECT_LE(room, std::max<std::int64_t>(rows + 7, rows * 3 / 2)) << rows;
  }
  EXPECT_EQ(room_for(0), 8);
  EXPECT_EQ(room_for(33), 48);
  EXPECT_EQ(room_for(49), 64);
  EXPECT_EQ(room_for(65), 96);
}

TEST(AttentionPlan, PutsLikeSentencesTogether) {
  const Offsets q = offsets_of({5, 40, 7, 41, 6}), k = offsets_of({8, 33, 8, 48, 0});
  const AttentionPlan plan = plan_attention(q, k, 2);
  expect_complete(plan, q, k, 2);
  ASSERT_EQ(plan.groups.size(), 2U);
  EXPECT_EQ(plan.order, (Offsets{1, 3, 0, 2, 4}));
  EXPECT_EQ(plan.groups[0].count, 2);
  EXPECT_EQ(plan.groups[0].queries, 48);
}

TEST(AttentionPlan, HoldsEverySentenceOfAnyBatch) {
  Random random(5);
  for (const int sentences : {0, 1, 2, 17, 400}) {
    std::vector<std::int32_t> queries, keys;
    for (int i = 0; i < sentences; ++i) {
      queries.push_back(static_cast<std::int32_t>(random.below(130)));
      keys.push_back(static_cast<std::int32_t>(random.below(130)));
    }
    const Offsets q = offsets_of(queries), k = offsets_of(keys);
    const AttentionPlan plan = plan_attention(q, k, 8);
    expect_complete(plan, q, k, 8);
    EXPECT_LE(plan.groups.size(), 81U);  // nine sizes in either direction
  }
}

TEST(AttentionPlan, BoundsTheScoresInMemory) {
  const Offsets long_ones = offsets_of(std::vector<std::int32_t>(40, 512));
  const AttentionPlan plan = plan_attention(long_ones, long_ones, 8);
  expect_complete(plan, long_ones, long_ones, 8);
  EXPECT_EQ(plan.groups.size(), 3U);  // 16 sentences of 8 heads and 512 x 512 scores are 2^25
  const Offsets giant = offsets_of({100000});
  EXPECT_EQ(plan_attention(giant, giant, 8).groups.size(), 1U);
}

}  // namespace
}  // namespace babelring::cuda
