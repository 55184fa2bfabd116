#include "nmt/ops/cuda/attention_plan.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <set>

#include "base/failure.h"
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

AttentionPlan plan_all(const Offsets& q, const Offsets& k, int heads) {
  Offsets all(q.size() - 1);
  std::iota(all.begin(), all.end(), 0);
  return plan_attention(q, k, all, heads);
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
    EXPECT_TRUE(group.count == 1 || scores <= AttentionPlan::max_scores) << scores;
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
  const AttentionPlan plan = plan_all(q, k, 2);
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
    const AttentionPlan plan = plan_all(q, k, 8);
    expect_complete(plan, q, k, 8);
    EXPECT_LE(plan.groups.size(), 81U);  // nine sizes in either direction
  }
}

TEST(AttentionPlan, BoundsTheScoresInMemory) {
  const Offsets long_ones = offsets_of(std::vector<std::int32_t>(40, 512));
  const AttentionPlan plan = plan_all(long_ones, long_ones, 8);
  expect_complete(plan, long_ones, long_ones, 8);
  EXPECT_EQ(plan.groups.size(), 3U);  // 16 sentences of 8 heads and 512 x 512 scores are 2^25
  const Offsets giant = offsets_of({100000});
  EXPECT_EQ(plan_all(giant, giant, 8).groups.size(), 1U);
}

TEST(AttentionPlan, ComputesOnlyWhatItIsGiven) {
  const Offsets q = offsets_of({5, 300, 7, 299}), k = offsets_of({5, 300, 7, 299});
  const AttentionPlan plan = plan_attention(q, k, Offsets{1, 3}, 2);
  EXPECT_EQ(plan.order, (Offsets{1, 3}));
  ASSERT_EQ(plan.groups.size(), 1U);
  EXPECT_EQ(plan.groups[0].count, 2);
  EXPECT_TRUE(plan_attention(q, k, {}, 2).groups.empty());
}

using Launches = std::vector<ShortLaunch>;

TEST(SplitAttention, GivesLikeSentencesRoomTogether) {
  EXPECT_EQ(split_attention(offsets_of({30, 17, 32}), 256).launches, (Launches{{-1, 32}}));
  EXPECT_EQ(split_attention(offsets_of({8, 16, 17}), 256).launches, (Launches{{-1, 16}, {16, 32}}));
  EXPECT_EQ(split_attention(offsets_of({33, 64, 0}), 256).launches, (Launches{{-1, 16}, {16, 64}}));
  EXPECT_EQ(split_attention(offsets_of({256, 255}), 256).launches, (Launches{{-1, 256}}));
  EXPECT_EQ(split_attention(offsets_of({10, 60, 128, 129}), 256).launches,
            (Launches{{-1, 16}, {16, 64}, {64, 128}, {128, 256}}));
}

TEST(SplitAttention, GivesAFewSentencesMoreRoomThanTheyNeed) {
  Offsets lengths(63, 50);
  lengths.push_back(10);
  EXPECT_EQ(split_attention(offsets_of(lengths), 256).launches, (Launches{{-1, 64}}));
  lengths.push_back(200);  // alone, but nobody has more
  EXPECT_EQ(split_attention(offsets_of(lengths), 256).launches, (Launches{{-1, 64}, {64, 256}}));
}

TEST(SplitAttention, LeavesWhatIsTooLong) {
  const AttentionSplit split = split_attention(offsets_of({257, 5, 1000, 129}), 128);
  EXPECT_EQ(split.launches, (Launches{{-1, 16}}));
  EXPECT_EQ(split.rest, (Offsets{0, 2, 3}));
  EXPECT_TRUE(split_attention(offsets_of({1000}), 256).launches.empty());
  EXPECT_TRUE(split_attention(offsets_of({}), 256).launches.empty());
  EXPECT_EQ(split_attention(offsets_of({0, 5}), -1).rest, (Offsets{0, 1}));
}

TEST(SplitAttention, TakesEverySentenceOnce) {
  Random random(6);
  for (int most = 32; most <= 256; most *= 2) {
    std::vector<std::int32_t> lengths;
    for (int i = 0; i < 300; ++i) lengths.push_back(static_cast<std::int32_t>(random.below(random.below(300) + 1)));
    const AttentionSplit split = split_attention(offsets_of(lengths), most);
    for (std::int32_t s = 0; s < std::ssize(lengths); ++s) {
      const std::int32_t rows = lengths[static_cast<std::size_t>(s)];
      const auto launches = std::count_if(split.launches.begin(), split.launches.end(), [&](const ShortLaunch& each) {
        return rows > each.above && rows <= each.most;
      });
      EXPECT_EQ(launches + std::count(split.rest.begin(), split.rest.end(), s), 1) << rows;
    }
    EXPECT_LE(split.launches.back().most, most);
  }
}

TEST(AttentionRoute, IsWhatTheEnvironmentSays) {
  EXPECT_EQ(attention_route(nullptr), AttentionRoute::automatic);
  for (const char* word : {"auto", "short", "cudnn", "matmuls"}) EXPECT_EQ(name_of(attention_route(word)), word);
  EXPECT_EQ(attention_route("matmuls"), AttentionRoute::matmuls);
  try {
    attention_route("fast");
    FAIL();
  } catch (const Failure& failure) {
    EXPECT_STREQ(failure.what(), "BABELRING_CUDA_ATTENTION is fast, auto, short, cudnn or matmuls is needed");
  }
}

}  // namespace
}  // namespace babelring::cuda
