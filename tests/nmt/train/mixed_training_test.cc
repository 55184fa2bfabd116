#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

#include "nmt/data/text_source.h"
#include "tests/nmt/data/synthetic.h"
#include "tests/nmt/data/temporary_folder.h"
#include "tests/nmt/train/train_ranks.h"

namespace babelring {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::Pair;
using testing::ThrowsMessage;

Corpus two_corpora() {
  Corpus corpus = small_corpus();
  corpus.set_parts({{"clean", 120}, {"crawl", 380}});
  return corpus;
}

/// Stages, of which the first ends after update 6 of 12.
TrainConfig mixed_config() {
  TrainConfig config = small_config();
  config.training.stop_after = "12u";
  config.training.log_every = "4u";
  config.data.mix = {{{"until", "50%"}, {"clean", "0.3"}, {"crawl", "0.7"}}, {{"clean", "1"}}};
  return config;
}

/// The step records of rank 0.
std::vector<StepRecord> train(const TrainConfig& config, const Corpus& corpus, int ranks = 1,
                              const std::filesystem::path& folder = {}) {
  // In shared memory threads add in a tree.
  const std::vector<Collector> records = train_on(corpus, config, ranks, folder, ranks > 1);
  for (int rank = 1; rank < ranks; ++rank) {
    for (const StepRecord& step : records[static_cast<std::size_t>(rank)].steps) EXPECT_TRUE(step.corpus_loss.empty());
  }
  return records[0].steps;
}

TEST(MixedTraining, HasTheSameBitsOnAnyNumberOfRanks) {
  const Corpus corpus = two_corpora();
  TrainConfig config = mixed_config();
  config.training.reproducible = Reproducible::ranks;
  config.training.units = 4;
  const std::vector<StepRecord> one = train(config, corpus);
  config.data.workers = 3;
  const std::vector<StepRecord> two = train(config, corpus, 2), four = train(config, corpus, 4);
  expect_same_updates(two, one);
  expect_same_updates(four, one);
  for (std::size_t i = 0; i < one.size(); ++i) {
    EXPECT_EQ(two[i].corpus_loss, one[i].corpus_loss) << "update " << i + 1;
    EXPECT_EQ(four[i].corpus_tokens, one[i].corpus_tokens) << "update " << i + 1;
  }
}

TEST(MixedTraining, ResumesAtAnyUpdateWithTheBitsOfAnUnbrokenRun) {
  const Corpus corpus = two_corpora();
  const TrainConfig config = mixed_config();
  const std::vector<StepRecord> whole = train(config, corpus);
  ASSERT_EQ(whole.size(), 12U);
  for (int stop = 1; stop < 12; ++stop) {
    const TemporaryFolder folder;
    TrainConfig first = config;
    first.training.stop_after = fmt::format("{}u", stop).c_str();
    first.data.mix[0][0].second = "6u";  // what 50% is of the whole run
    std::vector<StepRecord> steps = train(first, corpus, 1, folder.path());
    for (StepRecord& step : train(config, corpus, 1, folder.path())) steps.push_back(std::move(step));
    expect_same_updates(steps, whole);
  }
}

TEST(MixedTraining, LossesByCorpusAddUpToThoseOfTheUpdates) {
  const Corpus corpus = two_corpora();
  for (const double r_drop : {0.0, 2.0}) {
    TrainConfig config = mixed_config();
    config.training.r_drop = r_drop;
    config.data.micro_batch_tokens = 70;
    const std::vector<StepRecord> steps = train(config, corpus);
    double loss = 0;
    std::int64_t tokens = 0;
    for (const StepRecord& step : steps) {
      loss += step.loss * static_cast<double>(step.update_target_tokens);
      tokens += step.update_target_tokens;
      if (step.update % 4 != 0) {
        EXPECT_TRUE(step.corpus_loss.empty());
        continue;
      }
      double by_corpus = 0;
      std::int64_t tokens_by_corpus = 0;
      for (const auto& [name, mean] : step.corpus_loss) {
        by_corpus += mean * static_cast<double>(step.corpus_tokens.at(name));
        tokens_by_corpus += step.corpus_tokens.at(name);
      }
      EXPECT_NEAR(by_corpus, loss, 1e-6 * loss);
      EXPECT_EQ(tokens_by_corpus, tokens);
      loss = 0;
      tokens = 0;
    }
    EXPECT_EQ(steps[3].corpus_loss.size(), 2U);
    EXPECT_THAT(steps[11].corpus_tokens, ElementsAre(Pair("clean", testing::Gt(600))));  // crawl ended with update 6
  }
}

TEST(MixedTraining, NamesAloneChangeNoBitAndNothingIsRecordedWithout) {
  TrainConfig config = mixed_config();
  config.data.mix.clear();
  const std::vector<StepRecord> named = train(config, two_corpora()), plain = train(config, small_corpus());
  expect_same_updates(named, plain);
  EXPECT_EQ(named[3].corpus_loss.size(), 2U);
  for (const StepRecord& step : plain) EXPECT_TRUE(step.corpus_loss.empty() && step.corpus_tokens.empty());
}

TEST(MixedTraining, OtherWeightsGoOnWhereTheCorporaAreButAMixIsNotBegunUnasked) {
  const Corpus corpus = two_corpora();
  const TemporaryFolder folder;
  TrainConfig config = mixed_config();
  train(config, corpus, 1, folder.path());
  config.training.stop_after = "14u";
  config.data.mix = {{{"crawl", "1"}}};
  const std::vector<StepRecord> steps = train(config, corpus, 1, folder.path());
  ASSERT_EQ(steps.size(), 2U);
  EXPECT_EQ(steps[0].update, 13);
  config.data.mix.clear();
  Collector records;
  const auto communicator = make_single_communicator();
  EXPECT_THAT(
      [&] { train_rank(config, corpus, *communicator, folder.path(), records); },
      ThrowsMessage<UsageFailure>(HasSubstr("data.mix {crawl: 1} → {} would change the model or the data order")));
}

std::string refusal(std::vector<OptionMap> mix, double temperature = 0, double max_minutes = 0) {
  TrainConfig config = mixed_config();
  config.data.folder = "data";
  config.data.mix = std::move(mix);
  config.data.mix_temperature = temperature;
  config.training.max_minutes = max_minutes;
  try {
    config.check();
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "none";
}

TEST(MixOptions, RefuseWeightsAndStagesThatCannotBe) {
  const OptionMap clean = {{"clean", "1"}};
  EXPECT_EQ(refusal({clean}), "none");
  EXPECT_EQ(refusal({}, 5), "none");
  EXPECT_EQ(refusal({{{"clean", "0"}}}), "data.mix: clean: expected a weight above 0, found '0'");
  EXPECT_EQ(refusal({{{"clean", "-1"}}}), "data.mix: clean: expected a weight above 0, found '-1'");
  EXPECT_EQ(refusal({{{"clean", "x"}}}), "data.mix: clean: expected a weight above 0, found 'x'");
  EXPECT_EQ(refusal({{{"clean", "inf"}}}), "data.mix: clean: expected a weight above 0, found 'inf'");
  EXPECT_EQ(refusal({{{"until", "5u"}}, clean}), "data.mix: stage 1: expected the weight of at least one corpus");
  EXPECT_EQ(refusal({clean, clean}), "data.mix: stage 1: expected until, since another stage follows it");
  EXPECT_EQ(refusal({{{"until", "5u"}, {"clean", "1"}}}), "data.mix: found until, but no stage follows it");
  EXPECT_THAT(refusal({{{"until", "soon"}, {"clean", "1"}}, clean}), HasSubstr("data.mix: stage 1: until: "));
  EXPECT_EQ(refusal({{{"until", "100%"}, {"clean", "1"}}, clean}),
            "data.mix: stage 1: found until 100%, expected less than 100%");
  EXPECT_EQ(refusal({{{"until", "0u"}, {"clean", "1"}}, clean}), "data.mix: stage 1: found until 0u, expected more");
  EXPECT_EQ(refusal({{{"until", "5u"}, {"clean", "1"}}, {{"until", "5u"}, {"clean", "1"}}, clean}),
            "data.mix: stage 2: found until 5 updates, expected more than that of the stage before, 5 updates, in one "
            "unit");
  EXPECT_THAT(refusal({{{"until", "5u"}, {"clean", "1"}}, {{"until", "1Mt"}, {"clean", "1"}}, clean}),
              HasSubstr("found until 1,000,000 target tokens, expected more than that of the stage before, 5 updates"));
  EXPECT_EQ(refusal({{{"until", "50%"}, {"clean", "1"}}, clean}, 0, 5),
            "data.mix: stage 1: found until 50%, but no update knows when training.max_minutes ends; expected updates "
            "(u), epochs (e) or target tokens (t)");
  EXPECT_EQ(refusal({clean}, 2), "data.mix_temperature: 2, but data.mix gives the weights; expected 0");
}

TEST(MixOptions, ComeFromYamlAndFromOverrides) {
  const TrainConfig yaml = read_config(
      "data:\n  folder: d\n  mix:\n    - until: 50%\n      clean: 0.3\n    - {crawl: 1}\ntraining:\n  stop_after: 3e\n",
      "c", {});
  const MixOptions mix = yaml.mix_options();
  ASSERT_EQ(mix.stages.size(), 2U);
  EXPECT_EQ(mix.stages[0].end.unit, MixEnd::Unit::epochs);
  EXPECT_EQ(mix.stages[0].end.value, 1.5);
  EXPECT_THAT(mix.stages[0].weights, ElementsAre(Pair("clean", 0.3)));
  const TrainConfig stored = read_stored_config(config_yaml(yaml), "stored");
  EXPECT_EQ(stored.data.mix, yaml.data.mix);
  const TrainConfig given = read_config("data: {folder: d, mix: {a: 1}}", "c", {"data.mix={clean: 0.7, crawl: 0.3}"});
  EXPECT_THAT(given.data.mix, ElementsAre(ElementsAre(Pair("clean", "0.7"), Pair("crawl", "0.3"))));
  EXPECT_TRUE(read_config("data: {folder: d, mix: {a: 1}}", "c", {"data.mix={}"}).data.mix.empty());
}

}  // namespace
}  // namespace babelring
