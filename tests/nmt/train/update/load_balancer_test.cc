#include "nmt/train/update/load_balancer.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <thread>

#include "tests/nmt/train/brake.h"
#include "tests/nmt/train/train_ranks.h"

namespace babelring {
namespace {

/// Trains ranks, of which the second is slow: each op takes `delay` longer.
std::vector<Collector> train_unequal_ranks(const TrainConfig& config, std::chrono::microseconds delay, int ranks = 2,
                                           bool shares_memory = false, const std::string& device = "cpu") {
  const Corpus corpus = small_corpus();
  ThreadGroup group(ranks, shares_memory);
  std::vector<Collector> records(static_cast<std::size_t>(ranks));
  Brake brake(delay);
  std::vector<std::thread> threads;
  for (int rank = 0; rank < ranks; ++rank) {
    threads.emplace_back([&, rank] {
      const auto communicator = group.rank(rank);
      train_rank(config, corpus, *communicator, {}, records[static_cast<std::size_t>(rank)], {}, device, pieces,
                 rank == 1 ? &brake : nullptr);
    });
  }
  for (std::thread& thread : threads) thread.join();
  return records;
}

TEST(LoadBalancer, GivesASlowRankLessOfEachUpdate) {
  TrainConfig config = small_config();
  config.model.encoder_layers = config.model.decoder_layers = 1;
  config.training.stop_after = "30u";
  const std::vector<StepRecord> equal = train_steps(config, 2);
  config.data.balance = Balance::measured;
  config.data.prefetch = 2;
  const std::vector<Collector> balanced = train_unequal_ranks(config, std::chrono::milliseconds(1));
  const std::vector<StepRecord>&fast = balanced[0].steps, &slow = balanced[1].steps;
  ASSERT_EQ(fast.size(), 30U);
  // Decided after update 21; the batches of updates 22 to 24 are prepared by then.
  for (std::size_t i = 0; i < 30; ++i) {
    const std::int64_t all = fast[i].target_tokens + slow[i].target_tokens;
    EXPECT_EQ(all, equal[i].update_target_tokens) << "update " << i + 1;
    EXPECT_NEAR(fast[i].loss, equal[i].loss, 2e-4 * equal[i].loss) << "the same sentences, update " << i + 1;
    if (i < 24) {
      EXPECT_NEAR(static_cast<double>(fast[i].target_tokens), 0.5 * static_cast<double>(all), 30);
    } else {
      EXPECT_GT(fast[i].target_tokens, 2 * slow[i].target_tokens) << "update " << i + 1;
    }
  }
}

/// Ranks with one copy of the model, and ranks that send their gradients, also from memory that the host cannot access.
TEST(LoadBalancer, MovesUnitsWithoutChangingABit) {
  TrainConfig config = small_config();
  config.model.encoder_layers = config.model.decoder_layers = 1;
  config.model.attention_dropout = config.model.activation_dropout = 0.1;
  config.data.micro_batch_tokens = 32;
  config.training.freeze = "*norm*";
  config.training.digest_every = "1u";
  config.training.reproducible = Reproducible::ranks;
  config.training.stop_after = "28u";
  const std::vector<StepRecord> one = train_steps(config, 1);
  config.data.balance = Balance::measured;
  config.data.prefetch = 2;
  config.communication.all_reduce = AllReduceAlgorithm::ring;  // for make_gradient_comm(): not NCCL
  struct Setting {
    int ranks;
    bool shares_memory;
    const char* device;
  };
  for (const auto& [ranks, shares_memory, device] :
       {Setting{2, false, "cpu"}, Setting{2, true, "cpu"}, Setting{4, true, "cpu"}, Setting{2, false, "closed"}}) {
    bool moved = false;
    for (int delay_us = 200; !moved && delay_us < 10'000; delay_us *= 4) {  // a busy machine's noise hides a small one
      const std::vector<Collector> balanced =
          train_unequal_ranks(config, std::chrono::microseconds(delay_us), ranks, shares_memory, device);
      expect_same_updates(balanced[0].steps, one);
      const StepRecord& last = balanced[1].steps.back();
      moved = static_cast<double>(last.target_tokens * ranks) < 0.8 * static_cast<double>(last.update_target_tokens);
    }
    EXPECT_TRUE(moved) << "the slow one of " << ranks << " ranks on " << device << " still computes its whole part";
  }
}

/// Two ranks, of which the second takes three times as long for a token. Updates with moved units take `moved_ms`,
/// others 100 ms.
class UnequalRanks {
 public:
  explicit UnequalRanks(double moved_ms) : moved_ms_(moved_ms), group_(2) {
    config_.data.balance = Balance::measured;
    config_.training.reproducible = Reproducible::ranks;
  }

  /// Returns the share of rank 0 in each update.
  std::vector<double> shares_of(std::int64_t updates) {
    std::vector<double> found;
    std::vector<std::thread> threads;
    for (int rank = 0; rank < 2; ++rank) {
      threads.emplace_back([&, rank] {
        const auto communicator = group_.rank(rank);
        LoadBalancer balancer(config_, *communicator);
        balancer.begin(1);
        for (std::int64_t update = 1; update <= updates; ++update) {
          const double share = balancer.assignment()->bounds(update)->at(1);
          if (rank == 0) found.push_back(share);
          balancer.note({.update = update,
                         .update_target_tokens = 100,
                         .times = {.step = share == 0.5 ? 100 : moved_ms_,
                                   .forward = rank == 0 ? share * 60 : (1 - share) * 180}});
        }
      });
    }
    for (std::thread& thread : threads) thread.join();
    return found;
  }

 private:
  double moved_ms_;
  TrainConfig config_;
  ThreadGroup group_;
};

TEST(LoadBalancer, KeepsMovedUnitsThatMakeUpdatesFaster) {
  const std::vector<double> shares = UnequalRanks(99).shares_of(1500);
  EXPECT_EQ(shares.front(), 0.5);
  EXPECT_EQ(shares[100], 0.75);
  EXPECT_EQ(std::ranges::count(shares, 0.5), std::ranges::find(shares, 0.75) - shares.begin()) << "kept to the end";
}

TEST(LoadBalancer, TakesEqualPartsAgainWhereMovedUnitsMakeUpdatesSlower) {
  const std::vector<double> shares = UnequalRanks(101).shares_of(1500);
  std::vector<std::ptrdiff_t> changes;
  for (std::size_t i = 1; i < shares.size(); ++i) {
    if (shares[i] != shares[i - 1]) changes.push_back(static_cast<std::ptrdiff_t>(i));
  }
  ASSERT_EQ(changes.size(), 4U) << "moved, equal, tried again, equal";
  EXPECT_NEAR(static_cast<double>(changes[1] - changes[0]), LoadBalancer::interval, 10);
  EXPECT_NEAR(static_cast<double>(changes[2] - changes[1]), LoadBalancer::retry_interval, 10);
  EXPECT_EQ(shares.back(), 0.5);
}

TEST(LoadBalancer, DoesNothingUnlessAsked) {
  ThreadGroup group(1);
  const auto communicator = group.rank(0);
  TrainConfig config;
  LoadBalancer equal(config, *communicator);
  equal.begin(1);
  EXPECT_EQ(equal.assignment(), nullptr);
  config.data.balance = Balance::measured;
  LoadBalancer alone(config, *communicator);
  alone.begin(1);
  EXPECT_EQ(alone.assignment(), nullptr) << "one rank computes everything";
}

}  // namespace
}  // namespace babelring
