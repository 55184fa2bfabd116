#include "nmt/train/update/share_balancer.h"

#include <gtest/gtest.h>

#include <thread>

#include "tests/nmt/train/train_ranks.h"

namespace babelring {
namespace {

/// Makes a rank slow: each op takes a millisecond longer.
class Brake : public UpdateObserver, private OpObserver {
 public:
  OpObserver* begin(const UpdateStart&) override { return this; }
  void end(const StepRecord&) override {}

 private:
  Watch watch() const override { return Watch::order; }
  void ran(const OpRun&) override { std::this_thread::sleep_for(std::chrono::milliseconds(1)); }
};

/// Trains two ranks, of which the second is slow.
std::vector<Collector> train_unequal_ranks(const TrainConfig& config) {
  const Corpus corpus = small_corpus();
  ThreadGroup group(2);
  std::vector<Collector> records(2);
  const auto train = [&](int rank, UpdateObserver* lab) {
    const auto communicator = group.rank(rank);
    train_rank(config, corpus, *communicator, {}, records[static_cast<std::size_t>(rank)], {}, "cpu", pieces, lab);
  };
  Brake brake;
  std::thread slow([&] { train(1, &brake); });
  train(0, nullptr);
  slow.join();
  return records;
}

TEST(ShareBalancer, GivesASlowRankLessOfEachUpdate) {
  TrainConfig config = small_config();
  config.model.encoder_layers = config.model.decoder_layers = 1;
  config.training.stop_after = "30u";
  const std::vector<StepRecord> equal = train_steps(config, 2);
  config.data.balance = Balance::measured;
  config.data.prefetch = 2;
  const std::vector<Collector> balanced = train_unequal_ranks(config);
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

TEST(ShareBalancer, DoesNothingUnlessAsked) {
  ThreadGroup group(1);
  const auto communicator = group.rank(0);
  TrainConfig config;
  ShareBalancer equal(config, *communicator);
  equal.begin(1);
  EXPECT_EQ(equal.shares(), nullptr);
  config.data.balance = Balance::measured;
  ShareBalancer alone(config, *communicator);
  alone.begin(1);
  EXPECT_EQ(alone.shares(), nullptr) << "one rank computes everything";
}

}  // namespace
}  // namespace babelring
