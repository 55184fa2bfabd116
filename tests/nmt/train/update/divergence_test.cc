#include "nmt/train/update/divergence.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <limits>
#include <string>
#include <thread>
#include <vector>

#include "nmt/data/text_source.h"
#include "nmt/train/trainer.h"
#include "tests/nmt/comm/thread_communicator.h"
#include "tests/nmt/data/synthetic.h"
#include "tests/nmt/data/temporary_folder.h"
#include "tests/nmt/train/trained_rank.h"
#include "tests/nmt/train/weight_killer.h"
#include "tests/reference/test_backends.h"
#include "tests/worker/log_capture.h"

namespace babelring {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;
using ::testing::StartsWith;

StepRecord done(std::int64_t update, double loss, double norm) {
  return {.update = update, .loss = loss, .gradient_norm = norm};
}
StepRecord skipped(std::int64_t update) {
  return {.update = update, .loss = std::numeric_limits<double>::quiet_NaN(), .skipped = true};
}

TEST(DivergenceWatch, CountsConsecutiveSkippedUpdates) {
  TrainConfig config;
  config.training.divergence.after = "3u";
  config.optimizer.schedule.learning_rate = 10;
  config.optimizer.schedule.warm_up = "0u";
  DivergenceWatch watch(config);
  watch.note(done(1, 7.5, 1.25));
  for (const std::int64_t update : {2, 3}) watch.note(skipped(update));
  watch.note(done(4, 7.25, 178));
  for (const std::int64_t update : {5, 6}) watch.note(skipped(update));
  EXPECT_FALSE(watch.diverged());
  EXPECT_EQ(watch.skipped(), 2);
  watch.note(skipped(7));
  EXPECT_TRUE(watch.diverged());
  EXPECT_EQ(watch.last_finite_update(), 4);
  EXPECT_EQ(watch.description(),
            "training diverged at update 7: 3 consecutive updates had a non-finite gradient; the last finite values "
            "were loss "
            "7.25 and gradient norm 178 at update 4; try a lower optimizer.learning_rate (now 10), a longer "
            "optimizer.warm_up (now 0u) or optimizer.clip_norm (now off)");
  watch.reset();
  EXPECT_FALSE(watch.diverged());
  EXPECT_EQ(watch.skipped(), 0);
}

TEST(DivergenceWatch, OneNonFiniteEvaluationSuffices) {
  TrainConfig config;
  DivergenceWatch watch(config);
  watch.note(EvalRecord{.update = 8, .set = "valid", .loss = 3});
  EXPECT_FALSE(watch.diverged());
  watch.note(EvalRecord{.update = 9, .set = "valid", .loss = std::numeric_limits<double>::infinity()});
  EXPECT_THAT(watch.description(),
              StartsWith("training diverged at update 9: the loss on valid is inf; no update had a "
                         "finite gradient; try "));
}

TEST(DivergenceWatch, ZeroDisablesDetection) {
  TrainConfig config;
  config.training.divergence.after = "0u";
  DivergenceWatch watch(config);
  for (std::int64_t update = 1; update <= 1000; ++update) watch.note(skipped(update));
  watch.note(EvalRecord{.update = 9, .loss = std::numeric_limits<double>::quiet_NaN()});
  EXPECT_FALSE(watch.diverged());
}

struct Outcome {
  std::vector<StepRecord> steps;
  std::vector<CheckpointRecord> checkpoints;
  std::vector<LifecycleRecord> lifecycle;
  std::string failure;                     // message of a Diverged
  std::int64_t gradients_after_skips = 0;  // not 0
};

/// Trains `ranks` ranks. A weight becomes NaN after each update in `deaths`.
std::vector<Outcome> train(const TrainConfig& config, int ranks, const fs::path& folder,
                           const std::set<std::int64_t>& deaths, bool shares_memory = false,
                           const std::string& device = "cpu", int hosts = 1) {
  const Corpus corpus =
      make_synthetic({.task = SyntheticTask::reverse, .sentences = 500, .vocabulary_size = pieces, .max_length = 12});
  ThreadGroup group(ranks, shares_memory, hosts);
  std::vector<Outcome> outcomes(static_cast<std::size_t>(ranks));
  std::vector<std::thread> threads;
  for (int rank = 0; rank < ranks; ++rank) {
    threads.emplace_back([&, rank] {
      const auto communicator = group.rank(rank);
      const auto backend = make_test_backend(device);
      WeightKiller records(deaths);
      const StopRequest stop;
      Checkpointer keeper(config, folder, "", *backend, *communicator, records);
      TextSource source(corpus, config.plan_options());
      Trainer trainer({.config = config,
                       .backend = *backend,
                       .communicator = *communicator,
                       .source = source,
                       .checkpoints = &keeper,
                       .records = records,
                       .stop = stop,
                       .model_vocabulary = pieces});
      trainer.begin("r_00000000000000000000000000", 1);
      records.model = &trainer.model();
      records.counts_gradients = backend->host_memory();
      Outcome& outcome = outcomes[static_cast<std::size_t>(rank)];
      try {
        trainer.run();
      } catch (const Diverged& failure) {
        outcome.failure = failure.what();
      }
      outcome.steps = records.steps;
      outcome.checkpoints = records.checkpoints;
      outcome.lifecycle = records.lifecycle;
      outcome.gradients_after_skips = records.gradients_after_skips;
    });
  }
  for (std::thread& thread : threads) thread.join();
  return outcomes;
}

class DivergenceTest : public ::testing::Test {
 protected:
  DivergenceTest() {
    config_.training.stop_after = "12u";
    config_.training.divergence = {.after = "3u", .rewind = 0};
    config_.checkpoint.every = "4u";
  }
  fs::path saved(const std::string& name) const { return folder_ / "run" / name; }

  TrainConfig config_ = small_config();
  TemporaryFolder folder_;
};

TEST_F(DivergenceTest, EndsOnAllRanksWithoutAFinalCheckpoint) {
  for (const bool shares_memory : {false, true}) {
    fs::remove_all(folder_ / "run");
    const std::vector<Outcome> outcomes = train(config_, 2, folder_ / "run", {6}, shares_memory);
    EXPECT_THAT(outcomes[0].failure, StartsWith("training diverged at update 9: 3 consecutive updates"));
    EXPECT_THAT(outcomes[0].failure, HasSubstr(" at update 6; try"));
    EXPECT_EQ(outcomes[1].failure, outcomes[0].failure);
    ASSERT_EQ(outcomes[0].checkpoints.size(), 1U) << "none while updates are skipped, none at the end";
    EXPECT_EQ(outcomes[0].checkpoints[0].update, 4);
  }
}

/// Padding between parameters, too, which backward does not write.
TEST_F(DivergenceTest, ASkippedUpdateLeavesNoGradients) {
  for (const bool shares_memory : {false, true}) {
    for (const Outcome& outcome : train(config_, 2, folder_ / "run", {2}, shares_memory)) {
      EXPECT_EQ(std::ranges::count_if(outcome.steps, &StepRecord::skipped), 3);
      EXPECT_EQ(outcome.gradients_after_skips, 0);
    }
  }
}

TEST_F(DivergenceTest, SkipsAndRewindsIfHostsKeepSharesOfTheOptimizer) {
  config_.training.divergence.rewind = 1;
  for (const DType precision : {DType::f32, DType::bf16}) {
    config_.training.precision = precision;
    std::vector<std::vector<Outcome>> outcomes;
    for (const OptimizerPlacement optimizer : {OptimizerPlacement::replicated, OptimizerPlacement::sharded}) {
      config_.communication.optimizer = optimizer;
      const fs::path folder = folder_ / fmt::format("{}-{}", name_of(precision), outcomes.size());
      outcomes.push_back(train(config_, 4, folder, {6}, true, "cpu", 2));
    }
    for (std::size_t rank = 0; rank < 4; ++rank) {
      const std::vector<StepRecord>&whole = outcomes[0][rank].steps, &shares = outcomes[1][rank].steps;
      ASSERT_EQ(outcomes[1][rank].lifecycle.size(), 1U);
      EXPECT_EQ(outcomes[1][rank].lifecycle[0].detail, outcomes[0][rank].lifecycle[0].detail);
      ASSERT_EQ(shares.size(), whole.size());
      for (std::size_t i = 0; i < whole.size(); ++i) {
        EXPECT_EQ(shares[i].skipped, whole[i].skipped) << whole[i].update;
        EXPECT_EQ(shares[i].weights_digest, whole[i].weights_digest) << whole[i].update;
      }
    }
  }
}

/// A device has each update before the host knows whether its gradient is finite, and skips it by itself.
TEST_F(DivergenceTest, IsFoundOnADeviceAsOnTheHost) {
  config_.model = {.encoder_layers = 1, .decoder_layers = 1, .width = 16, .heads = 2, .inner = 16, .dropout = 0};
  config_.data.tokens_per_update = 40;
  config_.optimizer.schedule.learning_rate = 1e30;  // the weights are of no use after the first update
  config_.optimizer.schedule.warm_up = "0u";
  config_.optimizer.adam.clip_norm = 0.5;
  for (const std::string& device : available_backends()) {
    for (const int ranks : {1, 2}) {
      SCOPED_TRACE(fmt::format("{}, {} ranks", device, ranks));
      const fs::path folder = folder_ / fmt::format("{}-{}", device, ranks);
      const std::vector<Outcome> outcomes = train(config_, ranks, folder, {}, false, device);
      for (const Outcome& outcome : outcomes) {
        EXPECT_THAT(outcome.failure, StartsWith("training diverged at update 4: 3 consecutive updates"));
      }
      const std::vector<StepRecord>& steps = outcomes[0].steps;
      ASSERT_EQ(steps.size(), 4U);
      for (const StepRecord& step : steps) {
        EXPECT_EQ(step.skipped, step.update > 1) << step.update;
        EXPECT_EQ(step.weights_digest, steps[0].weights_digest) << step.update;
      }
    }
  }
}

TEST_F(DivergenceTest, ARewindContinuesWithHalfTheLearningRate) {
  for (const bool shares_memory : {false, true}) {
    for (const char* name : {"run", "other"}) fs::remove_all(folder_ / name);
    TrainConfig config = config_;
    config.training.stop_after = "4u";
    train(config, 2, folder_ / "other", {}, shares_memory);
    config.training.stop_after = "12u";
    config.optimizer.schedule.learning_rate /= 2;
    const std::vector<StepRecord> expected = train(config, 2, folder_ / "other", {}, shares_memory)[0].steps;
    ASSERT_EQ(expected.size(), 8U);

    config = config_;
    config.training.divergence.rewind = 1;
    const std::vector<Outcome> outcomes = train(config, 2, folder_ / "run", {6}, shares_memory);
    for (const Outcome& outcome : outcomes) {
      EXPECT_EQ(outcome.failure, "");
      ASSERT_EQ(outcome.steps.size(), 9U + 8U);
      for (std::size_t i = 0; i < expected.size(); ++i) {
        const StepRecord& step = outcome.steps[9 + i];
        EXPECT_EQ(step.update, expected[i].update);
        EXPECT_EQ(step.learning_rate, expected[i].learning_rate);
        EXPECT_EQ(step.weights_digest, expected[i].weights_digest) << step.update;
      }
      ASSERT_EQ(outcome.lifecycle.size(), 1U);
      EXPECT_EQ(outcome.lifecycle[0].event, "rewound");
      EXPECT_EQ(outcome.lifecycle[0].update, 4);
      EXPECT_THAT(outcome.lifecycle[0].detail, HasSubstr("after update 4 with learning rates multiplied by 0.5"));
    }
  }
}

TEST_F(DivergenceTest, ALaterResumeKeepsTheLearningRateAndCountsTheRewinds) {
  config_.training.divergence.rewind = 1;
  const Outcome first = train(config_, 1, folder_ / "run", {6})[0];
  EXPECT_EQ(first.failure, "");
  config_.training.stop_after = "20u";
  const Outcome resumed = train(config_, 1, folder_ / "run", {14})[0];
  EXPECT_EQ(resumed.steps[0].update, 13);
  EXPECT_EQ(resumed.steps[0].learning_rate, Schedule(config_.optimizer.schedule).learning_rate({.update = 13}) / 2);
  EXPECT_THAT(resumed.failure, StartsWith("training diverged at update 17")) << "the one rewind was used";
}

TEST_F(DivergenceTest, ARewindSkipsACheckpointSavedRightBeforeDivergence) {
  config_.training.divergence.rewind = 1;
  const Outcome outcome = train(config_, 1, folder_ / "run", {9})[0];
  EXPECT_EQ(outcome.failure, "");
  EXPECT_EQ(outcome.lifecycle.at(0).update, 8);

  fs::remove_all(folder_ / "run");
  config_.training.divergence.after = "1u";
  config_.training.stop_after = "6u";
  config_.checkpoint.every = "1u";
  train(config_, 1, folder_ / "run", {});
  config_.optimizer.schedule.learning_rate = 1e30;  // update 7 makes weights finite but useless
  config_.optimizer.schedule.warm_up = "0u";
  config_.training.stop_after = "9u";
  const Outcome dead = train(config_, 1, folder_ / "run", {})[0];
  EXPECT_EQ(dead.checkpoints.at(0).update, 7);
  EXPECT_EQ(dead.lifecycle.at(0).update, 6) << "the newest that gave a finite gradient";
  EXPECT_THAT(dead.failure, HasSubstr("training diverged at update 8"));
}

TEST_F(DivergenceTest, WithoutACheckpointThereIsNoRewind) {
  config_.training.divergence.rewind = 5;
  const Outcome outcome = train(config_, 1, folder_ / "run", {2})[0];
  EXPECT_THAT(outcome.failure, StartsWith("training diverged at update 5: "));
  EXPECT_THAT(outcome.failure, HasSubstr("; there is no checkpoint to rewind to"));
  EXPECT_TRUE(outcome.checkpoints.empty());
}

constexpr const char* flipped = "decoder.1.feed_forward.first.weight";

/// Flips one bit of one weight after an update.
class BitFlip final : public UpdateObserver {
 public:
  explicit BitFlip(std::int64_t update) : update_(update) {}
  OpObserver* begin(const UpdateStart& start) override {
    replica_ = &start.replica;
    return nullptr;
  }
  void end(const StepRecord& record) override {
    if (record.update != update_) return;
    for (const Parameter& parameter : replica_->model.parameters().all()) {
      if (parameter.name == flipped) parameter.master.as<std::uint32_t>()[5] ^= 1;
    }
  }

 private:
  std::int64_t update_;
  ModelReplica* replica_ = nullptr;
};

constexpr int no_rank = -1;

struct DigestedRun {
  std::string failure;  // empty: the run did not fail
  Collector records;
};

/// Trains two ranks on each host. The weights of rank `flipping`, if there is one, are damaged after update 3.
std::vector<DigestedRun> train_ranks(const TrainConfig& config, int flipping, bool shares_memory, int hosts = 1) {
  const Corpus corpus =
      make_synthetic({.task = SyntheticTask::reverse, .sentences = 200, .vocabulary_size = pieces, .max_length = 12});
  const int ranks = 2 * hosts;
  ThreadGroup group(ranks, shares_memory, hosts);
  std::vector<DigestedRun> outcomes(static_cast<std::size_t>(ranks));
  std::vector<std::thread> threads;
  for (int rank = 0; rank < ranks; ++rank) {
    threads.emplace_back([&, rank] {
      DigestedRun& outcome = outcomes[static_cast<std::size_t>(rank)];
      const auto communicator = group.rank(rank);
      const auto backend = make_cpu_backend(1);
      const StopRequest stop;
      BitFlip flip(rank == flipping ? 3 : 0);
      TextSource source(corpus, config.plan_options());
      try {
        run_rank({.config = config,
                  .backend = *backend,
                  .communicator = *communicator,
                  .source = source,
                  .records = outcome.records,
                  .stop = stop,
                  .lab = &flip});
      } catch (const RanksDiffer& failure) {
        outcome.failure = failure.what();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  return outcomes;
}

constexpr const char* expected_line =
    "update 3: the weights of the ranks differ from rank 0's in 1 of 55 parameters: "
    "decoder.1.feed_forward.first.weight "
    "on rank 1";

TEST(RankDigests, AFlippedBitEndsTheRunNamingUpdateParameterAndRank) {
  TrainConfig config = small_config();
  config.training.stop_after = "6u";
  const std::vector<DigestedRun> outcomes = train_ranks(config, 1, false);
  for (const DigestedRun& outcome : outcomes) {
    EXPECT_EQ(outcome.failure, expected_line);
    EXPECT_EQ(outcome.records.steps.size(), 3U);
  }
  EXPECT_NE(outcomes[0].records.steps[2].weights_digest, outcomes[1].records.steps[2].weights_digest);
}

TEST(RankDigests, HostsThatShareACopyAreComparedByTheirFirstRanks) {
  TrainConfig config = small_config();
  config.training.stop_after = "4u";
  const std::vector<DigestedRun> equal = train_ranks(config, no_rank, true, 2);
  for (const DigestedRun& outcome : equal) {
    EXPECT_EQ(outcome.failure, "");
    EXPECT_EQ(outcome.records.steps.back().weights_digest, equal[0].records.steps.back().weights_digest);
  }
  const std::vector<DigestedRun> damaged = train_ranks(config, 2, true, 2);
  std::string line = expected_line;
  line.replace(line.find("rank 1"), 6, "rank 2");
  for (const DigestedRun& outcome : damaged) EXPECT_EQ(outcome.failure, line);
  const auto digest = [&](std::size_t rank) { return damaged[rank].records.steps[2].weights_digest; };
  EXPECT_EQ(digest(0), digest(1));
  EXPECT_EQ(digest(2), digest(3));
  EXPECT_NE(digest(0), digest(2));
}

TEST(RankDigests, WarnLetsTheRunGoOn) {
  TrainConfig config = small_config();
  config.training.stop_after = "4u";
  config.training.on_difference = OnDifference::warn;
  const LogCapture log;
  for (const DigestedRun& outcome : train_ranks(config, 1, false)) {
    EXPECT_EQ(outcome.failure, "");
    EXPECT_EQ(outcome.records.steps.size(), 4U);
  }
  EXPECT_EQ(log.count(expected_line), 1) << log.text();
}

TEST(RankDigests, EqualRanksHaveEqualDigests) {
  TrainConfig config = small_config();
  config.training.stop_after = "3u";
  std::vector<std::string> digests;
  for (const bool shares_memory : {false, true}) {
    for (const DigestedRun& outcome : train_ranks(config, no_rank, shares_memory)) {
      EXPECT_EQ(outcome.failure, "");
      digests.push_back(outcome.records.steps.back().weights_digest);
    }
  }
  for (const std::string& digest : digests) EXPECT_EQ(digest, digests[0]);
  EXPECT_EQ(digests[0].size(), 64U);
}

}  // namespace

}  // namespace babelring
