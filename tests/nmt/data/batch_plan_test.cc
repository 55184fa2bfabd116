#include "nmt/data/batch_plan.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <utility>

#include "base/failure.h"
#include "nmt/core/random.h"
#include "tests/nmt/data/synthetic.h"

namespace babelring {
namespace {

Corpus random_corpus(std::int64_t sentences, int max_length, std::uint64_t seed = 3) {
  return make_synthetic({.sentences = sentences, .max_length = max_length, .seed = seed});
}

/// The updates from `start` to the end of its epoch.
std::vector<UpdatePlan> rest_of_epoch(const BatchPlan& plan, const DataPosition& start) {
  std::vector<UpdatePlan> updates;
  for (DataPosition position = start; position.epoch == start.epoch; position = updates.back().next) {
    updates.push_back(plan(position));
  }
  return updates;
}

std::vector<std::int64_t> sentences_of(const std::vector<UpdatePlan>& updates) {
  std::vector<std::int64_t> all;
  for (const UpdatePlan& update : updates) all.insert(all.end(), update.sentences.begin(), update.sentences.end());
  return all;
}

std::vector<std::int64_t> sorted(std::vector<std::int64_t> values) {
  std::sort(values.begin(), values.end());
  return values;
}

std::vector<std::int64_t> first_numbers(std::int64_t count) {
  std::vector<std::int64_t> numbers(static_cast<std::size_t>(count));
  std::iota(numbers.begin(), numbers.end(), 0);
  return numbers;
}

class EpochTest : public testing::TestWithParam<PlanOptions> {};

TEST_P(EpochTest, EverySentenceOccursOncePerEpoch) {
  const Corpus corpus = random_corpus(997, 30);
  const BatchPlan plan(corpus, GetParam());
  DataPosition position;
  for (std::int64_t epoch = 0; epoch < 3; ++epoch) {
    const std::vector<UpdatePlan> updates = rest_of_epoch(plan, position);
    EXPECT_EQ(static_cast<std::int64_t>(updates.size()), plan.updates_per_epoch());
    std::int64_t target_tokens = 0;
    for (const UpdatePlan& update : updates) {
      EXPECT_FALSE(update.sentences.empty());
      target_tokens += update.target_tokens;
    }
    EXPECT_EQ(sorted(sentences_of(updates)), first_numbers(997));
    EXPECT_EQ(target_tokens, plan.target_tokens());
    EXPECT_EQ(updates.back().epochs_done, static_cast<double>(epoch + 1));
    position = updates.back().next;
    EXPECT_EQ(position, (DataPosition{epoch + 1, 0}));
  }
}

INSTANTIATE_TEST_SUITE_P(Options, EpochTest,
                         testing::Values(PlanOptions{.tokens_per_update = 500}, PlanOptions{.tokens_per_update = 1},
                                         PlanOptions{.tokens_per_update = 31},
                                         PlanOptions{.tokens_per_update = 1'000'000},
                                         PlanOptions{.tokens_per_update = 31, .order = DataOrder::pooled},
                                         PlanOptions{.tokens_per_update = 777, .seed = 9, .order = DataOrder::pooled}));

TEST(PlanTest, BatchHasTheLinksOfItsPairs) {
  const Corpus corpus = Corpus::from_memory({{5, 6, 7}, {8}}, {{9, 10}, {11, 12}}, {{0, 0, 2, 0, 1, 1}, {0, 1}});
  const UpdatePlan update{.sentences = {1, 0}, .source_tokens = 6, .target_tokens = 6, .next = {}};
  const PackedBatch batch = make_batch(corpus, update, {.first = 0, .last = 2, .source_tokens = 6, .target_tokens = 6});
  // Rows: 11, 12, </s>, 9, 10, </s>.
  EXPECT_EQ(batch.links.offsets, (std::vector<std::int32_t>{0, 0, 1, 1, 3, 4, 4}));
  EXPECT_EQ(batch.links.sources, (std::vector<std::int32_t>{0, 0, 2, 1}));
  EXPECT_TRUE(make_batch(random_corpus(3, 4), update, {.first = 0, .last = 2}).links.offsets.empty());
}

TEST(PlanTest, LinksOutsideTheirSentencesAreRefused) {
  const auto links = [](const std::vector<std::int32_t>& given) {
    static_cast<void>(Corpus::from_memory({{5, 6}}, {{7, 8}}, {given}).links(0));
  };
  EXPECT_NO_THROW(links({1, 0, 0, 1}));
  EXPECT_THROW(links({2, 0}), Failure);
  EXPECT_THROW(links({0, 2}), Failure);
  EXPECT_THROW(links({0, 1, 0, 0}), Failure) << "not sorted";
  EXPECT_THROW(links({0}), Failure);
}

TEST(PlanTest, TokenCountsIncludeEndOfSentence) {
  const Corpus corpus = Corpus::from_memory({{5, 6}, {7}}, {{8}, {9, 10, 11}});
  const BatchPlan plan(corpus, {.tokens_per_update = 100});
  const UpdatePlan update = plan({});
  EXPECT_EQ(update.source_tokens, 3 + 2);
  EXPECT_EQ(update.target_tokens, 2 + 4);
  EXPECT_DOUBLE_EQ(update.epochs_done, 1.0);
}

TEST(PlanTest, UpdatesAreNearTheirBudget) {
  const Corpus corpus = random_corpus(5000, 40);
  const BatchPlan plan(corpus, {.tokens_per_update = 1000});
  for (const UpdatePlan& update : rest_of_epoch(plan, {})) {
    EXPECT_GE(update.target_tokens, 1000 - 41 - 20);
    EXPECT_LE(update.target_tokens, 1000 + 41);
  }
}

/// Mean difference between the longest and the shortest target of an update.
double mean_spread(const Corpus& corpus, DataOrder order) {
  const BatchPlan plan(corpus, {.tokens_per_update = 500, .order = order});
  double spread = 0;
  for (const UpdatePlan& update : rest_of_epoch(plan, {})) {
    std::int64_t shortest = 1000, longest = 0;
    for (const std::int64_t i : update.sentences) {
      shortest = std::min(shortest, corpus.target_length(i));
      longest = std::max(longest, corpus.target_length(i));
    }
    spread += static_cast<double>(longest - shortest);
  }
  return spread / static_cast<double>(plan.updates_per_epoch());
}

TEST(PlanTest, UpdatesMixAllLengths) {
  const Corpus corpus = random_corpus(5000, 40);
  EXPECT_GT(mean_spread(corpus, PlanOptions().order), 30);
  EXPECT_LT(mean_spread(corpus, DataOrder::pooled), 4);
}

/// A digest of the updates of the first two epochs.
std::uint64_t digest_of_order(const BatchPlan& plan) {
  std::uint64_t hash = 0;
  for (const std::int64_t epoch : {0, 1}) {
    for (const UpdatePlan& update : rest_of_epoch(plan, {epoch, 0})) {
      for (const std::int64_t s : update.sentences) hash = mix64(hash + static_cast<std::uint64_t>(s));
      hash = mix64(hash + 1000);
    }
  }
  return hash;
}

/// Existing runs depend on these orders. The digests come from the versions that introduced them.
TEST(PlanTest, OrdersAreUnchanged) {
  const Corpus corpus = random_corpus(997, 30);
  const std::pair<PlanOptions, std::uint64_t> known[] = {
      {{.tokens_per_update = 31, .order = DataOrder::pooled}, 0x5f6bde53a04db5ab},
      {{.tokens_per_update = 500, .order = DataOrder::pooled}, 0xd1a04bac9013ecbf},
      {{.tokens_per_update = 31}, 0xc9283eb2da7bca04},
      {{.tokens_per_update = 500}, 0x3c4527b0e20f229d},
      {{.tokens_per_update = 500, .max_length = 20, .seed = 7}, 0x54cb36ee44542338},
  };
  for (const auto& [options, expected] : known) {
    EXPECT_EQ(digest_of_order(BatchPlan(corpus, options)), expected)
        << options.tokens_per_update << " tokens per update, seed " << options.seed;
  }
}

TEST(PlanTest, IsAPureFunctionOfThePosition) {
  const Corpus corpus = random_corpus(500, 20);
  for (const DataOrder order : {DataOrder::shuffled, DataOrder::pooled}) {
    const PlanOptions options{.tokens_per_update = 300, .order = order};
    const BatchPlan onward(corpus, options);
    std::vector<DataPosition> starts(1);
    std::vector<UpdatePlan> updates;
    while (updates.size() < 5 * static_cast<std::size_t>(onward.updates_per_epoch())) {
      updates.push_back(onward(starts.back()));
      starts.push_back(updates.back().next);
    }
    for (std::size_t at = updates.size(); at-- > 0;) {
      const BatchPlan fresh(corpus, options);
      const UpdatePlan again = at % 2 ? fresh(starts[at]) : onward(starts[at]);
      EXPECT_EQ(again.sentences, updates[at].sentences);
      EXPECT_EQ(again.epochs_done, updates[at].epochs_done);
    }
  }
}

TEST(PlanTest, OtherUpdateSizesContinueAtThePosition) {
  const Corpus corpus = random_corpus(997, 30);
  DataPosition position;
  double epochs = 0;
  std::vector<std::int64_t> seen;
  for (int turn = 0; position.epoch < 2; ++turn) {
    constexpr std::int64_t budgets[] = {500, 130, 2000, 31};
    const std::int64_t tokens = budgets[turn % 4];
    const BatchPlan plan(corpus, {.tokens_per_update = tokens});
    for (int u = 0; u < 3 && position.epoch < 2; ++u) {
      const UpdatePlan update = plan(position);
      EXPECT_LE(update.target_tokens, tokens * 5 / 4 + 31);
      EXPECT_GT(update.epochs_done, epochs);
      seen.insert(seen.end(), update.sentences.begin(), update.sentences.end());
      position = update.next;
      epochs = update.epochs_done;
      if (position.sentences != 0) continue;
      EXPECT_EQ(epochs, static_cast<double>(position.epoch));
      EXPECT_EQ(sorted(std::exchange(seen, {})), first_numbers(997));
    }
  }
}

TEST(PlanTest, PositionBetweenCutsEndsAtTheNextCut) {
  const Corpus corpus = random_corpus(997, 30);
  const BatchPlan plan(corpus, {.tokens_per_update = 500});
  const UpdatePlan first = plan({}), second = plan(first.next);
  EXPECT_EQ(plan({0, 1}).next, first.next);
  EXPECT_EQ(plan({0, first.next.sentences - 1}).next, second.next) << "one sentence is too short for an update";
  const std::vector<UpdatePlan> all = rest_of_epoch(plan, {});
  EXPECT_EQ(plan({0, 996}).sentences, std::vector<std::int64_t>{all.back().sentences.back()});
  EXPECT_EQ(plan({0, 996}).next, (DataPosition{1, 0}));
}

TEST(PlanTest, FindsThePositionOfANumberOfEpochs) {
  const Corpus corpus = random_corpus(997, 30);
  for (const DataOrder order : {DataOrder::shuffled, DataOrder::pooled}) {
    const BatchPlan plan(corpus, {.tokens_per_update = 500, .order = order});
    DataPosition position;
    for (std::int64_t update = 0; update < 3 * plan.updates_per_epoch(); ++update) {
      const double epochs = static_cast<double>(update) / static_cast<double>(plan.updates_per_epoch());
      EXPECT_EQ(plan.position_at(epochs), position) << update;
      position = plan(position).next;
    }
    const double part = 1 / static_cast<double>(plan.updates_per_epoch());
    EXPECT_EQ(plan.position_at(part / 2), plan({}).next);
    EXPECT_EQ(plan.position_at(2 - part / 2), (DataPosition{2, 0}));
  }
}

TEST(PlanTest, SeedAndEpochChangeTheOrder) {
  const Corpus corpus = random_corpus(500, 20);
  const BatchPlan one(corpus, {.tokens_per_update = 300, .seed = 1});
  const BatchPlan two(corpus, {.tokens_per_update = 300, .seed = 2});
  EXPECT_NE(one({}).sentences, two({}).sentences);
  EXPECT_NE(one({}).sentences, one({1, 0}).sentences);
}

TEST(PlanTest, OverLongSentencesAreExcludedAndCounted) {
  const Corpus corpus = Corpus::from_memory({{5}, {5, 5, 5}, {5}, {5, 5}}, {{6}, {6}, {6, 6, 6}, {6, 6}});
  const BatchPlan plan(corpus, {.tokens_per_update = 100, .max_length = 3});
  EXPECT_EQ(plan.left_out(), 2);
  EXPECT_EQ(sorted(plan({}).sentences), (std::vector<std::int64_t>{0, 3}));
}

TEST(PlanTest, RefusesInvalidOptionsAndPositions) {
  const Corpus corpus = random_corpus(10, 5);
  EXPECT_THROW(BatchPlan(corpus, {.tokens_per_update = 0}), UsageFailure);
  EXPECT_THROW(BatchPlan(corpus, {.max_length = 1}), UsageFailure);
  EXPECT_THROW(BatchPlan(corpus, {.max_length = 70000}), UsageFailure);
  const BatchPlan plan(corpus, {});
  for (const DataPosition& wrong : {DataPosition{-1, 0}, DataPosition{0, -1}, DataPosition{0, 10}}) {
    EXPECT_THROW(plan(wrong), Failure);
  }
  const Corpus long_ones = Corpus::from_memory({{5, 5, 5}}, {{6}});
  EXPECT_THROW(BatchPlan(long_ones, {.max_length = 3}), Failure);
  EXPECT_THROW(slice(corpus, plan({}), 2, 2, 1), Failure);
  EXPECT_THROW(slice(corpus, plan({}), 0, 1, 0), Failure);
}

struct World {
  int ranks, micro_batches;
};

class SliceTest : public testing::TestWithParam<World> {};

TEST_P(SliceTest, PartsAreTheUpdateInOrder) {
  const auto [ranks, micro_batches] = GetParam();
  const Corpus corpus = random_corpus(400, 25);
  const BatchPlan plan(corpus, {.tokens_per_update = 700});
  for (const UpdatePlan& update : rest_of_epoch(plan, {})) {
    std::vector<std::vector<BatchSlice>> of_rank;
    for (int rank = 0; rank < ranks; ++rank) of_rank.push_back(slice(corpus, update, rank, ranks, micro_batches));
    std::int64_t position = 0, source_rows = 0, target_rows = 0;
    for (int m = 0; m < micro_batches; ++m) {
      for (int rank = 0; rank < ranks; ++rank) {
        const BatchSlice& part = of_rank[static_cast<std::size_t>(rank)][static_cast<std::size_t>(m)];
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

TEST(SliceTest, PartsFollowTheSharesOfTheRanks) {
  const Corpus corpus = random_corpus(400, 25);
  const BatchPlan plan(corpus, {.tokens_per_update = 700});
  const std::vector<double> bounds{0, 0.6, 0.7, 1};
  for (const int micro_batches : {1, 3}) {
    for (const UpdatePlan& update : rest_of_epoch(plan, {})) {
      const auto tokens = static_cast<double>(update.source_tokens + update.target_tokens);
      std::int64_t position = 0, rows = 0;
      for (int m = 0; m < micro_batches; ++m) {
        for (int rank = 0; rank < 3; ++rank) {
          const auto part = slice(corpus, update, rank, bounds, micro_batches).at(static_cast<std::size_t>(m));
          const auto at = static_cast<std::size_t>(rank);
          EXPECT_EQ(part.first, position);
          EXPECT_EQ(part.first_target_row, rows);
          EXPECT_NEAR(static_cast<double>(part.source_tokens + part.target_tokens),
                      tokens * (bounds[at + 1] - bounds[at]) / micro_batches, 53);
          position = part.last;
          rows += part.target_tokens;
        }
      }
      EXPECT_EQ(position, std::ssize(update.sentences));
      EXPECT_EQ(rows, update.target_tokens);
    }
  }
}

TEST(SliceTest, MicroBatchesKeepTheLimitOfTheLargestShare) {
  const Corpus corpus = random_corpus(400, 25);
  const UpdatePlan update = BatchPlan(corpus, {.tokens_per_update = 900})({});
  const std::vector<double> bounds{0, 0.75, 1};
  const int count = micro_batches_for(corpus, update, bounds, 120);
  EXPECT_GT(count, micro_batches_for(corpus, update, 2, 120));
  for (int rank = 0; rank < 2; ++rank) {
    for (const BatchSlice& part : slice(corpus, update, rank, bounds, count)) {
      EXPECT_LE(std::max(part.source_tokens, part.target_tokens), 120);
    }
  }
}

TEST(SliceTest, FewerSentencesThanRanksLeavesSomeEmpty) {
  const Corpus corpus = Corpus::from_memory({{5}, {5}}, {{6}, {6}});
  const BatchPlan plan(corpus, {});
  const UpdatePlan update = plan({});
  std::int64_t sentences = 0;
  for (int rank = 0; rank < 5; ++rank) {
    const BatchSlice part = slice(corpus, update, rank, 5, 1).at(0);
    EXPECT_LE(part.last - part.first, 1);
    sentences += part.last - part.first;
  }
  EXPECT_EQ(sentences, 2);
}

TEST(SliceTest, MicroBatchesKeepTheLimitOnEveryRank) {
  const Corpus corpus = random_corpus(400, 25);
  const BatchPlan plan(corpus, {.tokens_per_update = 900});
  const UpdatePlan update = plan(plan({}).next);
  for (const int world : {1, 2, 3}) {
    const int count = micro_batches_for(corpus, update, world, 120);
    for (int rank = 0; rank < world; ++rank) {
      for (const BatchSlice& part : slice(corpus, update, rank, world, count)) {
        EXPECT_LE(std::max(part.source_tokens, part.target_tokens), 120);
      }
    }
    EXPECT_GE(count * world, 900 / 120);
  }
  EXPECT_EQ(micro_batches_for(corpus, plan({}), 2, 0), 1);
  EXPECT_EQ(micro_batches_for(corpus, plan({}), 2, 1'000'000), 1);
}

TEST(SliceTest, LimitBelowOneSentenceGivesOneSentencePerMicroBatch) {
  const Corpus corpus = random_corpus(50, 25);
  const UpdatePlan update = BatchPlan(corpus, {.tokens_per_update = 100})({});
  const int count = micro_batches_for(corpus, update, 1, 1);
  for (const BatchSlice& part : slice(corpus, update, 0, 1, count)) EXPECT_LE(part.last - part.first, 1);
}

TEST(SliceTest, MayNeedMoreMicroBatchesThanSentences) {
  // With three equal parts the first would hold both short sentences, which together exceed the limit.
  const std::vector<std::vector<std::int32_t>> side = {{5}, {5, 5, 5, 5}, {5, 5, 5, 5, 5, 5}};
  const Corpus corpus = Corpus::from_memory(side, side);
  UpdatePlan update;
  update.sentences = {0, 1, 2};
  update.source_tokens = update.target_tokens = 2 + 5 + 7;
  const int count = micro_batches_for(corpus, update, 1, 6);
  EXPECT_EQ(count, 4);
  for (const BatchSlice& part : slice(corpus, update, 0, 1, count)) EXPECT_LE(part.last - part.first, 1);
}

}  // namespace
}  // namespace babelring
