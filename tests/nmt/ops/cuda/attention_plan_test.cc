#include "nmt/ops/cuda/attention_plan.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
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

using Items = std::vector<TileItem>;

TEST(TileItems, ShortSentencesHaveSeveralHeadsInABlock) {
  EXPECT_EQ(forward_items(offsets_of({16}), 8), (Items{{0, 0}, {0, 4}}));
  EXPECT_EQ(forward_items(offsets_of({17}), 4), (Items{{0, 0}, {0, 2}}));
  EXPECT_EQ(forward_items(offsets_of({33}), 3), (Items{{0, 0}, {0, 1}, {0, 2}}));
  EXPECT_EQ(forward_items(offsets_of({1}), 3), (Items{{0, 0}})) << "fewer heads than a block may have";
}

TEST(TileItems, LongSentencesComeFirstTileByTile) {
  EXPECT_EQ(forward_items(offsets_of({5, 129, 64}), 2),
            (Items{{1, 0}, {1, 1}, {1, 2}, {1, 3}, {1, 4}, {1, 5}, {2, 0}, {2, 1}, {0, 0}}));
}

TEST(TileItems, SentencesWithoutQueriesHaveNoForward) {
  EXPECT_EQ(forward_items(offsets_of({0, 3}), 1), (Items{{1, 0}}));
  EXPECT_TRUE(forward_items(offsets_of({0}), 8).empty());
  EXPECT_TRUE(forward_items(offsets_of({}), 8).empty());
}

TEST(TileItems, BackwardHasTilesOfQueriesWhereABlockHasNotAllKeys) {
  EXPECT_EQ(backward_items(offsets_of({100}), offsets_of({64}), 1), (Items{{0, 0}}));
  EXPECT_EQ(backward_items(offsets_of({100}), offsets_of({65}), 1), (Items{{0, 0}, {0, 2}, {0, 1}, {0, 3}}));
  EXPECT_EQ(backward_items(offsets_of({0}), offsets_of({65}), 1), (Items{{0, 0}, {0, 2}}));
  EXPECT_EQ(backward_items(offsets_of({5}), offsets_of({0}), 8), (Items{{0, 0}, {0, 4}})) << "zeros for dq";
  EXPECT_EQ(backward_items(offsets_of({0}), offsets_of({5}), 4), (Items{{0, 0}})) << "zeros for dk and dv";
  EXPECT_TRUE(backward_items(offsets_of({0}), offsets_of({0}), 8).empty());
}

/// Every row of every head belongs to one block.
TEST(TileItems, CoverABatch) {
  Random random(6);
  for (const int heads : {1, 3, 8}) {
    std::vector<std::int32_t> lengths;
    for (int i = 0; i < 300; ++i) lengths.push_back(static_cast<std::int32_t>(random.below(random.below(300) + 1)));
    const Offsets offsets = offsets_of(lengths);
    std::map<std::pair<std::int32_t, int>, int> tiles;  // by sentence and head
    const Items items = forward_items(offsets, heads);
    for (const TileItem& item : items) {
      const std::int32_t rows = lengths[static_cast<std::size_t>(item.sentence)];
      const int together = rows <= 16 ? 4 : rows <= 32 ? 2 : 1, first = item.part % heads;
      for (int head = first; head < std::min(first + together, heads); ++head) {
        EXPECT_EQ((tiles[{item.sentence, head}]++), item.part / heads);
      }
    }
    for (std::int32_t s = 0; s < 300; ++s) {
      for (int head = 0; head < heads; ++head) {
        EXPECT_EQ((tiles[{s, head}]), (lengths[static_cast<std::size_t>(s)] + 63) / 64);
      }
    }
  }
}

/// The largest number of items that any lengths with the given sum have.
template <class Count>
std::size_t largest(std::int32_t rows, std::int32_t sentences, const Count& count) {
  if (sentences == 1) return count(rows);
  std::size_t found = 0;
  for (std::int32_t first = 0; first <= rows; ++first) {
    found = std::max(found, count(first) + count(rows - first));
  }
  return found;
}

TEST(TileItems, AreAtMostTheBound) {
  for (const int heads : {1, 2, 3, 5, 8}) {
    const auto items = [&](std::int32_t queries, std::int32_t keys) {
      return backward_items(offsets_of({queries}), offsets_of({keys}), heads).size();
    };
    for (const std::int32_t sentences : {1, 2}) {
      for (std::int32_t rows = 0; rows <= 300; ++rows) {
        const auto forward = [&](std::int32_t length) { return forward_items(offsets_of({length}), heads).size(); };
        EXPECT_LE(largest(rows, sentences, forward), max_forward_items(rows, sentences, heads)) << rows << " " << heads;
        for (const std::int32_t queries : {0, 1, 64, 65, 200}) {
          const auto backward = [&](std::int32_t length) { return items(queries, length); };
          EXPECT_LE(largest(rows, sentences, backward), max_backward_items(sentences * queries, rows, sentences, heads))
              << queries << " " << rows << " " << heads;
        }
      }
    }
  }
}

Items items_of(const TilePlan& plan) {
  Items items;
  const std::size_t first = 2 * (plan.sentences + 1);
  EXPECT_EQ(plan.list.size(), first + 2 * plan.items);
  for (std::size_t i = first; i < plan.list.size(); i += 2) items.push_back({plan.list[i], plan.list[i + 1]});
  return items;
}

TEST(TilePlans, AreOffsetsOfQueriesThoseOfKeysAndItems) {
  TilePlans plans;
  const TilePlan& plan = plans.forward(offsets_of({5, 20}), offsets_of({3, 1}), 4, false);
  EXPECT_EQ(plan.sentences, 2U);
  EXPECT_EQ(plan.list, (Offsets{0, 5, 25, 0, 3, 4, 1, 0, 1, 2, 0, 0}));
}

TEST(TilePlans, DependOnRowsAndSentencesOnlyIfTheSizeIsFixed) {
  TilePlans plans;
  const Offsets one = offsets_of({5, 70, 10}), other = offsets_of({28, 28, 29});
  EXPECT_EQ(plans.forward(one, other, 4, true).items, plans.forward(other, one, 4, true).items);
  EXPECT_EQ(plans.backward(one, other, 4, true).items, plans.backward(other, one, 4, true).items);
  Items padded = items_of(plans.forward(one, one, 4, true));
  Items exact = forward_items(one, 4);
  ASSERT_GT(padded.size(), exact.size());
  exact.resize(padded.size());
  EXPECT_EQ(padded, exact);
}

TEST(TilePlans, AreKeptForTheLayersOfAPass) {
  TilePlans plans;
  const Offsets q = offsets_of({5, 70}), k = offsets_of({80, 3});
  for (int layer = 0; layer < 2; ++layer) {
    EXPECT_EQ(items_of(plans.forward(q, k, 2, false)), forward_items(q, 2));
    EXPECT_EQ(items_of(plans.backward(q, k, 2, false)), backward_items(q, k, 2));
    EXPECT_EQ(items_of(plans.forward(k, k, 2, false)), forward_items(k, 2));
    EXPECT_EQ(items_of(plans.forward(k, k, 1, false)), forward_items(k, 1));
  }
  const TilePlan* first = &plans.forward(q, k, 2, false);
  EXPECT_EQ(&plans.forward(q, k, 2, false), first);
  for (std::int32_t length = 100; length < 120; ++length) plans.forward(offsets_of({length}), k, 2, false);
  EXPECT_EQ(items_of(plans.forward(q, k, 2, false)), forward_items(q, 2)) << "made anew";
}

TEST(AttentionRoute, IsWhatTheEnvironmentSays) {
  EXPECT_EQ(attention_route(nullptr), AttentionRoute::automatic);
  for (const char* word : {"auto", "matmuls"}) EXPECT_EQ(name_of(attention_route(word)), word);
  EXPECT_EQ(attention_route("matmuls"), AttentionRoute::matmuls);
  try {
    attention_route("fast");
    FAIL();
  } catch (const Failure& failure) {
    EXPECT_STREQ(failure.what(), "BABELRING_CUDA_ATTENTION is fast, auto or matmuls is needed");
  }
}

}  // namespace
}  // namespace babelring::cuda
