#include "nmt/data/mixed_plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <set>
#include <string>
#include <vector>

#include "base/failure.h"
#include "nmt/data/text_source.h"
#include "tests/nmt/data/synthetic.h"

namespace babelring {
namespace {

using testing::HasSubstr;
using testing::ThrowsMessage;

/// 100 sentences of `large`, 30 of `small` and 7 of `tiny`.
Corpus three_corpora() {
  Corpus corpus = make_synthetic({.sentences = 137, .max_length = 12});
  corpus.set_parts({{"large", 100}, {"small", 30}, {"tiny", 7}});
  return corpus;
}

PlanOptions mixed(std::vector<MixStage> stages, std::int64_t tokens = 60) {
  return {.tokens_per_update = tokens, .seed = 3, .mix = {.stages = std::move(stages)}};
}

const std::vector<MixStage> half_small = {{.weights = {{"small", 5}, {"large", 3}, {"tiny", 2}}, .end = {}}};

/// All sentences of the first updates.
std::vector<std::int64_t> sentences_of(const MixedPlan& plan, int updates, DataPosition position = {}) {
  std::vector<std::int64_t> sentences;
  for (int update = 0; update < updates; ++update) {
    const UpdatePlan planned = plan(position);
    sentences.insert(sentences.end(), planned.sentences.begin(), planned.sentences.end());
    position = planned.next;
  }
  return sentences;
}

TEST(MixedPlan, EveryBeginningHasTheWeightsToWithinASentence) {
  const Corpus corpus = three_corpora();
  const MixedPlan plan(corpus, mixed(half_small));
  const double weights[] = {0.3, 0.5, 0.2};
  double given[] = {0, 0, 0};
  const std::vector<std::int64_t> sentences = sentences_of(plan, 200);
  ASSERT_GT(sentences.size(), 1000U);
  for (std::size_t i = 0; i < sentences.size(); ++i) {
    given[corpus.part_of(sentences[i])] += 1;
    for (int part = 0; part < 3; ++part) {
      EXPECT_LT(std::abs(given[part] - weights[part] * static_cast<double>(i + 1)), 1.001) << i << " " << part;
    }
  }
}

TEST(MixedPlan, ASentenceComesBackOnlyAfterAllOfItsCorpus) {
  const Corpus corpus = three_corpora();
  const MixedPlan plan(corpus, mixed(half_small));
  std::vector<std::vector<std::int64_t>> orders(3);
  for (const std::int64_t sentence : sentences_of(plan, 200)) orders[corpus.part_of(sentence)].push_back(sentence);
  for (std::size_t part = 0; part < 3; ++part) {
    const auto size = static_cast<std::size_t>(corpus.parts()[part].last - corpus.parts()[part].first);
    ASSERT_GT(orders[part].size(), 2 * size);
    std::set<std::vector<std::int64_t>> epochs;
    for (std::size_t first = 0; first + size <= orders[part].size(); first += size) {
      const std::vector<std::int64_t> epoch(orders[part].begin() + static_cast<std::ptrdiff_t>(first),
                                            orders[part].begin() + static_cast<std::ptrdiff_t>(first + size));
      EXPECT_EQ(std::set<std::int64_t>(epoch.begin(), epoch.end()).size(), size) << "part " << part << " at " << first;
      epochs.insert(epoch);
    }
    EXPECT_GT(epochs.size(), 1U) << "each epoch has another order";
  }
}

TEST(MixedPlan, AnUpdateFollowsFromItsPositionAlone) {
  const Corpus corpus = three_corpora();
  const PlanOptions options = mixed({{.weights = {{"small", 1}}, .end = {MixEnd::Unit::updates, 7}},
                                     {.weights = {{"large", 2}, {"tiny", 1}}, .end = {}}});
  const MixedPlan plan(corpus, options);
  DataPosition position;
  double epochs = 0;
  for (int update = 0; update < 60; ++update) {
    const UpdatePlan here = plan(position), again = MixedPlan(corpus, options)(position);
    EXPECT_EQ(here.sentences, again.sentences) << "update " << update + 1;
    EXPECT_EQ(here.epochs, again.epochs);
    EXPECT_EQ(here.next, again.next);
    EXPECT_EQ(here.next.updates, update + 1);
    EXPECT_GT(here.epochs_done, epochs);
    EXPECT_LE(std::abs(here.target_tokens - 60), 7);
    epochs = here.epochs_done;
    position = here.next;
  }
  const MixedPlan other(corpus, {.tokens_per_update = 60, .seed = 4, .mix = options.mix});
  EXPECT_NE(sentences_of(other, 10), sentences_of(plan, 10));
}

TEST(MixedPlan, TheOrderDoesNotDependOnTheSizeOfUpdates) {
  const Corpus corpus = three_corpora();
  std::vector<std::int64_t> large = sentences_of(MixedPlan(corpus, mixed(half_small, 300)), 20);
  std::vector<std::int64_t> small = sentences_of(MixedPlan(corpus, mixed(half_small, 1)), 300);
  ASSERT_EQ(small.size(), 300U) << "at least one sentence an update";
  large.resize(300);
  EXPECT_EQ(large, small);
}

TEST(MixedPlan, StagesEndByUpdatesTokensAndEpochs) {
  const Corpus corpus = three_corpora();
  const auto stages = [](MixEnd end) {
    return std::vector<MixStage>{{.weights = {{"large", 1}}, .end = end}, {.weights = {{"small", 1}}, .end = {}}};
  };
  for (const MixEnd& end : {MixEnd{MixEnd::Unit::updates, 5}, MixEnd{MixEnd::Unit::target_tokens, 280},
                            MixEnd{MixEnd::Unit::epochs, 0.3}}) {
    const MixedPlan plan(corpus, mixed(stages(end)));
    DataPosition position;
    int updates_of_large = 0;
    for (int update = 0; update < 20; ++update) {
      const UpdatePlan planned = plan(position);
      const std::uint16_t part = corpus.part_of(planned.sentences.front());
      for (const std::int64_t sentence : planned.sentences) EXPECT_EQ(corpus.part_of(sentence), part);
      if (part == 0) {
        EXPECT_EQ(updates_of_large, update) << "the first stage does not come back";
      }
      updates_of_large += part == 0 ? 1 : 0;
      position = planned.next;
    }
    EXPECT_EQ(updates_of_large, 5) << end.text();
  }
}

TEST(MixedPlan, TheTemperatureEvensTheSizesOut) {
  const Corpus corpus = three_corpora();
  const auto text = [&](double temperature) {
    PlanOptions options = mixed({});
    options.mix.temperature = temperature;
    return MixedPlan(corpus, options).text();
  };
  EXPECT_EQ(text(1), "large 73 %, small 21.9 %, tiny 5.11 %");
  EXPECT_EQ(text(1000), "large 33.4 %, small 33.3 %, tiny 33.3 %");
  EXPECT_EQ(text(5), "large 42.1 %, small 33.1 %, tiny 24.8 %");  // 100^0.2 : 30^0.2 : 7^0.2 = 2.512 : 1.974 : 1.476
}

TEST(MixedPlan, LongSentencesAreLeftOutOfTheirCorpus) {
  const Corpus corpus = three_corpora();
  PlanOptions options = mixed(half_small);
  options.max_length = 8;
  for (const std::int64_t sentence : sentences_of(MixedPlan(corpus, options), 100)) {
    EXPECT_LE(target_cost(corpus, sentence), 8);
  }
}

TEST(MixedPlan, RefusesWhatItCannotMix) {
  const Corpus corpus = three_corpora(), plain = make_synthetic({.sentences = 10});
  EXPECT_THAT(([&] { MixedPlan(corpus, mixed({{.weights = {{"smal", 1}}, .end = {}}})); }),
              ThrowsMessage<UsageFailure>("data.mix: unknown corpus 'smal', the corpus has large, small, tiny; did you "
                                          "mean 'small'?"));
  EXPECT_THAT(([&] { MixedPlan(plain, mixed(half_small)); }),
              ThrowsMessage<UsageFailure>(HasSubstr("data.mix: the training set of the corpus has no named corpora")));
  EXPECT_THAT(([&] { MixedPlan(corpus, mixed({{.weights = {{"large", 1e9}, {"tiny", 1}}, .end = {}}})); }),
              ThrowsMessage<UsageFailure>(HasSubstr("corpus tiny has 1 of the weights' sum 1e+09")));
  const MixedPlan plan(corpus, mixed(half_small));
  DataPosition wrong = plan({}).next;
  wrong.corpora[2].sentences = 7;
  EXPECT_FALSE(plan.has(wrong));
  EXPECT_THROW(plan(wrong), Failure);
  wrong = plan({}).next;
  wrong.corpora.pop_back();
  EXPECT_FALSE(plan.has(wrong));
  EXPECT_FALSE(plan.has({.epoch = 0, .sentences = 5}));
  EXPECT_TRUE(plan.has({}));
}

TEST(MixedSource, RanksTogetherCoverTheUpdateAndKnowItsCorpora) {
  const Corpus corpus = three_corpora();
  const TextSource source(corpus, mixed(half_small, 200));
  DataPosition position;
  for (std::int64_t update = 1; update <= 20; ++update) {
    const UpdateBatches whole = source.make(update, position, {});
    std::vector<std::uint16_t> corpora;
    for (int rank = 0; rank < 3; ++rank) {
      const UpdateBatches part = source.make(update, position, {.rank = rank, .world = 3});
      EXPECT_EQ(part.next, whole.next);
      const PackedBatch& batch = part.micro_batches.at(0);
      EXPECT_EQ(std::ssize(batch.corpora), batch.source.sentences());
      corpora.insert(corpora.end(), batch.corpora.begin(), batch.corpora.end());
    }
    EXPECT_EQ(corpora, whole.micro_batches.at(0).corpora);
    EXPECT_EQ(source.after(position), whole.next);
    position = whole.next;
  }
}

TEST(MixedSource, ResumesAtItsPositionOrAtTheEpochsOfARunWithoutMix) {
  const Corpus corpus = three_corpora();
  TextSource source(corpus, mixed(half_small));
  const DataPosition position = source.make(1, {}, {}).next;
  EXPECT_EQ(source.resume(DataOrder::shuffled, position, 0.1), position);
  const DataPosition begun = source.resume(DataOrder::shuffled, DataPosition{.epoch = 1, .sentences = 3}, 1.5);
  EXPECT_EQ(begun.corpora, std::vector<CorpusPosition>(3));
  EXPECT_EQ(begun.target_tokens, std::llround(1.5 * static_cast<double>(source.plan().target_tokens())));
  TextSource plain(corpus, {.tokens_per_update = 60});
  EXPECT_EQ(plain.resume(DataOrder::shuffled, position, 1).epoch, 1);
  EXPECT_TRUE(plain.resume(DataOrder::shuffled, position, 1).corpora.empty());
}

}  // namespace
}  // namespace babelring
