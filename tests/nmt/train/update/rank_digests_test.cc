#include "nmt/train/update/rank_digests.h"

#include <gmock/gmock.h>

#include <string>
#include <thread>
#include <vector>

#include "nmt/data/text_source.h"
#include "nmt/train/trainer.h"
#include "tests/nmt/comm/thread_communicator.h"
#include "tests/nmt/data/synthetic.h"
#include "tests/nmt/train/trained_rank.h"
#include "tests/worker/log_capture.h"

namespace babelring {
namespace {

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
