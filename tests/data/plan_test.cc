#include "nmt/data/plan.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

#include "nmt/base/failure.h"
#include "tests/data/synthetic.h"

namespace babelring {
namespace {

Corpus random_corpus(std::int64_t sentences, int max_length, std::uint64_t seed = 3) {
  return make_synthetic({.sentences = sentences, .max_length = max_length, .seed = seed});
}

class EpochTest : public testing::TestWithParam<PlanOptions> {};

TEST_P(EpochTest, EverySentenceExactlyOnceAnEpoch) {
  const Corpus corpus = random_corpus(997, 30);
  const Plan plan(corpus, GetParam());
  for (std::int64_t epoch = 0; epoch < 3; ++epoch) {
    std::vector<std::int64_t> seen;
    std::int64_t target_tokens = 0;
    for (std::int64_t n = 1; n <= plan.updates_per_epoch(); ++n) {
      const UpdatePlan update = plan(epoch * plan.updates_per_epoch() + n);
      EXPECT_EQ(update.epoch, epoch);
      EXPECT_FALSE(update.sentences.empty());
      seen.insert(seen.end(), update.sentences.begin(), update.sentences.end());
      target_tokens += update.target_tokens;
    }
    std::sort(seen.begin(), seen.end());
    std::vector<std::int64_t> expected(997);
    std::iota(expected.begin(), expected.end(), 0);
    EXPECT_EQ(seen, expected);
    EXPECT_EQ(target_tokens, plan.target_tokens());
  }
}

INSTANTIATE_TEST_SUITE_P(Options, EpochTest,
                         testing::Values(PlanOptions{.tokens_per_update = 500}, PlanOptions{.tokens_per_update = 1},
                                         PlanOptions{.tokens_per_update = 31, .pool_updates = 1},
                                         PlanOptions{.tokens_per_update = 1'000'000},
                                         PlanOptions{.tokens_per_update = 777, .seed = 9, .pool_updates = 3}));

TEST(PlanTest, TokensAreCountedWithEndOfSentence) {
  const Corpus corpus = Corpus::from_memory({{5, 6}, {7}}, {{8}, {9, 10, 11}});
  const Plan plan(corpus, {.tokens_per_update = 100});
  const UpdatePlan update = plan(1);
  EXPECT_EQ(update.source_tokens, 3 + 2);
  EXPECT_EQ(update.target_tokens, 2 + 4);
  EXPECT_DOUBLE_EQ(update.epochs_done, 1.0);
}

TEST(PlanTest, UpdatesAreNearTheirBudget) {
  const Corpus corpus = random_corpus(5000, 40);
  const Plan plan(corpus, {.tokens_per_update = 1000, .pool_updates = 8});
  for (std::int64_t u = 1; u <= plan.updates_per_epoch(); ++u) {
    const std::int64_t tokens = plan(u).target_tokens;
    EXPECT_GE(tokens, 1000 - 41 - 20);
    EXPECT_LE(tokens, 1000 + 41);
  }
}

TEST(PlanTest, PoolsMakeLengthsWithinAnUpdateSimilar) {
  const Corpus corpus = random_corpus(5000, 40);
  const auto mean_spread = [&](int pool_updates) {
    const Plan plan(corpus, {.tokens_per_update = 500, .pool_updates = pool_updates});
    double spread = 0;
    for (std::int64_t u = 1; u <= plan.updates_per_epoch(); ++u) {
      std::int64_t shortest = 1000, longest = 0;
      for (const std::int64_t i : plan(u).sentences) {
        shortest = std::min(shortest, corpus.target_length(i));
        longest = std::max(longest, corpus.target_length(i));
      }
      spread += static_cast<double>(longest - shortest);
    }
    return spread / static_cast<double>(plan.updates_per_epoch());
  };
  EXPECT_LT(mean_spread(64), 4);
  EXPECT_GT(mean_spread(1), 25);
}

TEST(PlanTest, IsAPureFunctionOfTheUpdateNumber) {
  const Corpus corpus = random_corpus(500, 20);
  const PlanOptions options{.tokens_per_update = 300};
  const Plan onward(corpus, options);
  std::vector<UpdatePlan> updates;
  for (std::int64_t u = 1; u <= 5 * onward.updates_per_epoch(); ++u) updates.push_back(onward(u));
  for (std::size_t at = updates.size(); at-- > 0;) {
    const Plan fresh(corpus, options);
    const UpdatePlan again =
        at % 2 ? fresh(static_cast<std::int64_t>(at) + 1) : onward(static_cast<std::int64_t>(at) + 1);
    EXPECT_EQ(again.sentences, updates[at].sentences);
    EXPECT_EQ(again.epochs_done, updates[at].epochs_done);
  }
}

TEST(PlanTest, SeedAndEpochChangeTheOrder) {
  const Corpus corpus = random_corpus(500, 20);
  const Plan one(corpus, {.tokens_per_update = 300, .seed = 1});
  const Plan two(corpus, {.tokens_per_update = 300, .seed = 2});
  EXPECT_NE(one(1).sentences, two(1).sentences);
  EXPECT_NE(one(1).sentences, one(1 + one.updates_per_epoch()).sentences);
}

TEST(PlanTest, OverLongSentencesAreLeftOutAndCounted) {
  const Corpus corpus = Corpus::from_memory({{5}, {5, 5, 5}, {5}, {5, 5}}, {{6}, {6}, {6, 6, 6}, {6, 6}});
  const Plan plan(corpus, {.tokens_per_update = 100, .max_length = 3});
  EXPECT_EQ(plan.left_out(), 2);
  std::vector<std::int64_t> kept = plan(1).sentences;
  std::sort(kept.begin(), kept.end());
  EXPECT_EQ(kept, (std::vector<std::int64_t>{0, 3}));
}

TEST(PlanTest, RefusesWhatCannotBePlanned) {
  const Corpus corpus = random_corpus(10, 5);
  EXPECT_THROW(Plan(corpus, {.tokens_per_update = 0}), UsageFailure);
  EXPECT_THROW(Plan(corpus, {.max_length = 1}), UsageFailure);
  EXPECT_THROW(Plan(corpus, {.max_length = 70000}), UsageFailure);
  EXPECT_THROW(Plan(corpus, {.pool_updates = 0}), UsageFailure);
  const Plan plan(corpus, {});
  EXPECT_THROW(plan(0), Failure);
  const Corpus long_ones = Corpus::from_memory({{5, 5, 5}}, {{6}});
  EXPECT_THROW(Plan(long_ones, {.max_length = 3}), Failure);
  EXPECT_THROW(slice(corpus, plan(1), 2, 2, 1), Failure);
  EXPECT_THROW(slice(corpus, plan(1), 0, 1, 0), Failure);
}

struct World {
  int ranks, micro_batches;
};

class SliceTest : public testing::TestWithParam<World> {};

TEST_P(SliceTest, PartsAreTheUpdateInOrder) {
  const auto [ranks, micro_batches] = GetParam();
  const Corpus corpus = random_corpus(400, 25);
  const Plan plan(corpus, {.tokens_per_update = 700});
  for (std::int64_t u = 1; u <= plan.updates_per_epoch(); ++u) {
    const UpdatePlan update = plan(u);
    std::vector<std::vector<Slice>> of_rank;
    for (int rank = 0; rank < ranks; ++rank) of_rank.push_back(slice(corpus, update, rank, ranks, micro_batches));
    std::int64_t position = 0, source_rows = 0, target_rows = 0;
    for (int m = 0; m < micro_batches; ++m) {
      for (int rank = 0; rank < ranks; ++rank) {
        const Slice& part = of_rank[static_cast<std::size_t>(rank)][static_cast<std::size_t>(m)];
        EXPECT_EQ(part.first, position);
        EXPECT_EQ(part.first_source_row, source_rows);
        EXPECT_EQ(part.first_target_row, target_rows);
        position = part.last;
        source_rows += part.source_tokens;
        target_rows += part.target_tokens;
        const std::int64_t fair = (update.source_tokens + update.target_tokens) / (ranks * micro_batches);
        EXPECT_NEAR(static_cast<double>(part.source_tokens + part.target_tokens), static_cast<double>(fair), 53);
      }
    }
    EXPECT_EQ(position, static_cast<std::int64_t>(update.sentences.size()));
    EXPECT_EQ(source_rows, update.source_tokens);
    EXPECT_EQ(target_rows, update.target_tokens);
  }
}

INSTANTIATE_TEST_SUITE_P(Worlds, SliceTest,
                         testing::Values(World{1, 1}, World{2, 1}, World{4, 1}, World{1, 3}, World{2, 5}, World{4, 7},
                                         World{64, 2}));

TEST(SliceTest, FewerSentencesThanRanksLeavesSomeEmpty) {
  const Corpus corpus = Corpus::from_memory({{5}, {5}}, {{6}, {6}});
  const Plan plan(corpus, {});
  const UpdatePlan update = plan(1);
  std::int64_t sentences = 0;
  for (int rank = 0; rank < 5; ++rank) {
    const Slice part = slice(corpus, update, rank, 5, 1).at(0);
    EXPECT_LE(part.last - part.first, 1);
    sentences += part.last - part.first;
  }
  EXPECT_EQ(sentences, 2);
}

TEST(SliceTest, MicroBatchesKeepTheLimitOnEveryRank) {
  const Corpus corpus = random_corpus(400, 25);
  const Plan plan(corpus, {.tokens_per_update = 900});
  for (const int world : {1, 2, 3}) {
    const UpdatePlan update = plan(2);
    const int count = micro_batches_for(corpus, update, world, 120);
    for (int rank = 0; rank < world; ++rank) {
      for (const Slice& part : slice(corpus, update, rank, world, count)) {
        EXPECT_LE(std::max(part.source_tokens, part.target_tokens), 120);
      }
    }
    EXPECT_GE(count * world, 900 / 120);
  }
  EXPECT_EQ(micro_batches_for(corpus, plan(1), 2, 0), 1);
  EXPECT_EQ(micro_batches_for(corpus, plan(1), 2, 1'000'000), 1);
}

TEST(SliceTest, ALimitBelowOneSentenceGivesOneSentenceAMicroBatch) {
  const Corpus corpus = random_corpus(50, 25);
  const UpdatePlan update = Plan(corpus, {.tokens_per_update = 100})(1);
  const int count = micro_batches_for(corpus, update, 1, 1);
  for (const Slice& part : slice(corpus, update, 0, 1, count)) EXPECT_LE(part.last - part.first, 1);
}

TEST(SliceTest, ThereMayHaveToBeMoreMicroBatchesThanSentences) {
  // Of three equal parts the first would hold both short sentences, which together are over the limit.
  const std::vector<std::vector<std::int32_t>> side = {{5}, {5, 5, 5, 5}, {5, 5, 5, 5, 5, 5}};
  const Corpus corpus = Corpus::from_memory(side, side);
  UpdatePlan update;
  update.sentences = {0, 1, 2};
  update.source_tokens = update.target_tokens = 2 + 5 + 7;
  const int count = micro_batches_for(corpus, update, 1, 6);
  EXPECT_EQ(count, 4);
  for (const Slice& part : slice(corpus, update, 0, 1, count)) EXPECT_LE(part.last - part.first, 1);
}

}  // namespace
}  // namespace babelring
