#include "nmt/train/pair_losses.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <cmath>
#include <csignal>
#include <limits>
#include <vector>

#include "base/files.h"
#include "nmt/checkpoint/safetensors.h"
#include "nmt/data/prepare.h"
#include "tests/nmt/data/temporary_folder.h"
#include "tests/nmt/train/train_ranks.h"

namespace babelring {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::Pair;
using testing::ThrowsMessage;
using testing::UnorderedElementsAre;

TrainConfig noting_config() {
  TrainConfig config = small_config();
  config.training.pair_losses = true;
  config.training.stop_after = "2e";
  return config;
}

/// Trains in `folder` and returns the records of rank 0.
std::vector<StepRecord> train(const TrainConfig& config, const Corpus& corpus, const std::filesystem::path& folder,
                              int ranks = 1) {
  // In shared memory threads add in a tree.
  const std::vector<Collector> records = train_on(corpus, config, ranks, folder, ranks > 1);
  return records[0].steps;
}

std::vector<float> losses_of(const std::filesystem::path& folder, int epoch) {
  const SafetensorsReader reader(folder / pair_losses_name);
  const ConstTensor tensor = reader.tensor("epoch_" + std::to_string(epoch));
  const auto* values = static_cast<const float*>(tensor.data);
  return {values, values + tensor.shape.elements()};
}

TEST(PairLosses, AddUpToTheLossOfEachEpoch) {
  const Corpus corpus = small_corpus();
  for (const double r_drop : {0.0, 2.0}) {
    const TemporaryFolder folder;
    TrainConfig config = noting_config();
    config.training.r_drop = r_drop;
    config.data.micro_batch_tokens = 70;
    const std::vector<StepRecord> steps = train(config, corpus, folder.path(), 2);
    for (const int epoch : {1, 2}) {
      double expected = 0, found = 0;
      for (const StepRecord& step : steps) {
        if (std::ceil(step.epoch) == epoch) expected += step.nll * static_cast<double>(step.update_target_tokens);
      }
      const std::vector<float> losses = losses_of(folder.path(), epoch);
      ASSERT_EQ(std::ssize(losses), corpus.sentences());
      for (std::int64_t i = 0; i < corpus.sentences(); ++i) {
        found +=
            static_cast<double>(losses[static_cast<std::size_t>(i)]) * static_cast<double>(corpus.target_length(i) + 1);
      }
      EXPECT_NEAR(found, expected, 1e-5 * expected) << "epoch " << epoch;
    }
  }
}

TEST(PairLosses, AreTheSameBytesOnAnyNumberOfRanksAndAfterAnyStop) {
  const Corpus corpus = small_corpus();
  TrainConfig config = noting_config();
  config.training.reproducible = Reproducible::ranks;
  config.training.units = 4;
  config.data.tokens_per_update = 1000;
  const TemporaryFolder whole, two, four;
  const std::vector<StepRecord> steps = train(config, corpus, whole.path());
  const std::string expected = read_file(whole / pair_losses_name);
  train(config, corpus, two.path(), 2);
  train(config, corpus, four.path(), 4);
  EXPECT_TRUE(read_file(two / pair_losses_name) == expected);
  EXPECT_TRUE(read_file(four / pair_losses_name) == expected);
  for (std::size_t stop = 1; stop < steps.size(); ++stop) {
    const TemporaryFolder folder;
    TrainConfig first = config;
    first.training.stop_after = fmt::format("{}u", stop).c_str();
    train(first, corpus, folder.path());
    train(config, corpus, folder.path());
    EXPECT_TRUE(read_file(folder / pair_losses_name) == expected) << "after update " << stop;
  }
}

TEST(PairLosses, ChangeNoBitOfTheTraining) {
  const Corpus corpus = small_corpus();
  TrainConfig config = noting_config();
  const TemporaryFolder noted, plain;
  const std::vector<StepRecord> with = train(config, corpus, noted.path());
  config.training.pair_losses = false;
  expect_same_updates(with, train(config, corpus, plain.path()));
  EXPECT_FALSE(std::filesystem::exists(plain / pair_losses_name));
}

TEST(PairLosses, FollowTheEpochsOfEachCorpusInAMixAndLeaveOutLongPairs) {
  Corpus corpus = small_corpus();
  corpus.set_parts({{"clean", 20}, {"crawl", 480}});
  TrainConfig config = noting_config();
  config.data.mix = {{{"clean", "0.5"}, {"crawl", "0.5"}}};
  config.data.max_length = 10;
  config.training.stop_after = "10u";
  const TemporaryFolder folder;
  train(config, corpus, folder.path());
  const std::vector<float> first = losses_of(folder.path(), 1), third = losses_of(folder.path(), 3);
  for (std::int64_t i = 0; i < corpus.sentences(); ++i) {
    const auto at = static_cast<std::size_t>(i);
    const bool is_long = std::max(corpus.source_length(i), corpus.target_length(i)) + 1 > 10;
    EXPECT_EQ(std::isnan(first[at]), is_long || (i >= 20 && std::isnan(first[at]))) << i;
    EXPECT_TRUE(i < 20 || std::isnan(third[at])) << i;
  }
  EXPECT_EQ(std::count_if(third.begin(), third.begin() + 20, [](float loss) { return !std::isnan(loss); }),
            std::count_if(first.begin(), first.begin() + 20, [](float loss) { return !std::isnan(loss); }));
}

const std::vector<PairLoss> four_losses = {{0, 0, 5}, {1, 0, 5}, {2, 0, 5}, {3, 0, 9}};

Corpus four_pairs(std::int32_t first = 4) {
  return Corpus::from_memory({{first}, {5}, {6}, {7}}, {{8}, {9}, {10}, {11}});
}

TEST(PairLosses, KeepTheFileAsideIfItHasOtherPairsOrAnEarlierTraining) {
  const TemporaryFolder folder;
  const Corpus corpus = four_pairs(), other = four_pairs(12);
  const auto note = [&](const Corpus& pairs, const char* vocabulary, bool anew) {
    PairLosses losses(folder / "a", pairs, vocabulary);
    losses.begin(anew);
    if (anew) losses.add(four_losses);
    return read_file(folder / "a");
  };
  const std::string whole = note(corpus, "v", true);
  EXPECT_TRUE(note(corpus, "v", false) == whole);
  EXPECT_FALSE(std::filesystem::exists(folder / "a.old"));
  // A crash while the next epoch is added leaves something behind the last one.
  folder.write("a", whole + "torn");
  EXPECT_TRUE(note(corpus, "v", false) == whole);
  for (const std::string& damaged : {whole.substr(0, whole.size() - 1), std::string("x"), std::string()}) {
    folder.write("a", damaged);
    EXPECT_FALSE(note(corpus, "v", false) == whole);
    EXPECT_EQ(read_file(folder / "a.old"), damaged);
  }
  folder.write("a", whole);
  EXPECT_FALSE(note(other, "v", false) == whole);
  EXPECT_TRUE(read_file(folder / "a.old") == whole);
  EXPECT_FALSE(note(other, "w", false) == whole);
  folder.write("a", whole);
  EXPECT_TRUE(note(corpus, "v", true) == whole);
  EXPECT_TRUE(read_file(folder / "a.old") == whole);
}

TEST(PairLosses, GoOnWithoutTheFileWhenItCannotBeWritten) {
  const Corpus corpus = four_pairs();
  EXPECT_THAT([&] { PairLosses("/absent/a", corpus, "v").begin(false); },
              ThrowsMessage<Failure>(HasSubstr("cannot create /absent/a: No such file")));
  const TemporaryFolder folder;
  PairLosses losses(folder / "a", corpus, "v");
  losses.begin(false);
  const auto add_without_room = [&] {
    signal(SIGXFSZ, SIG_IGN);
    const rlimit none = {1, 1};
    setrlimit(RLIMIT_FSIZE, &none);
    losses.add(four_losses);
    losses.add(four_losses);
    std::_Exit(0);
  };
  EXPECT_EXIT(add_without_room(), testing::ExitedWithCode(0), "");
  losses.add({});
  EXPECT_EQ(SafetensorsReader(folder / "a").entries().size(), 1U);
}

TEST(Suspects, KeepMostOfTheirLossAndHaveMuch) {
  const TemporaryFolder folder;
  const Corpus corpus = Corpus::from_memory({{4}, {5}, {6}, {7}, {8}}, {{8}, {9}, {10}, {11}, {12}});
  PairLosses losses(folder / "a", corpus, "v");
  losses.begin(false);
  losses.add(std::vector<PairLoss>{{0, 0, 5}, {1, 0, 5}, {2, 0, 8}, {3, 0, 9}, {4, 0, 7}});
  EXPECT_THAT([&] { find_suspects(folder / "a", 0.5); },
              ThrowsMessage<Failure>(HasSubstr("found 1 epoch, expected pairs with losses of at least 2")));
  // Pair 0 keeps 4 of 5, pair 2 keeps 6 of 8; 1 and 3 end below the mean of 3.5, and 4 is seen once.
  const double nan = std::numeric_limits<double>::quiet_NaN();
  losses.add(std::vector<PairLoss>{{0, 1, 4}, {1, 1, 1}, {2, 1, 7}, {3, 1, 3}, {4, 1, nan}});
  losses.add(std::vector<PairLoss>{{0, 2, 4}, {1, 2, 1}, {2, 2, 5}, {3, 2, 3}});
  const auto hash = [&](std::int64_t i) { return pair_hash(corpus.source(i), corpus.target(i)); };
  const Suspects half = find_suspects(folder / "a", 0.5);
  EXPECT_THAT(half.kept, UnorderedElementsAre(Pair(hash(0), 0.8), Pair(hash(2), 0.75)));
  EXPECT_EQ(half.vocabulary, "v");
  EXPECT_THAT(find_suspects(folder / "a", 0.25).kept, ElementsAre(Pair(hash(0), 0.8)));
  EXPECT_EQ(find_suspects(folder / "a", 1).kept.size(), 2U);
  EXPECT_TRUE(find_suspects(folder / "a", 0).kept.empty());
  folder.write("b", "{}");
  EXPECT_THAT([&] { find_suspects(folder / "b", 0.5); }, ThrowsMessage<Failure>(HasSubstr("safetensors")));
}

}  // namespace
}  // namespace babelring
