#include <gtest/gtest.h>

#include <atomic>
#include <stdexcept>

#include "base/records/run_marks.h"
#include "tests/nmt/data/temporary_folder.h"
#include "tests/nmt/train/train_ranks.h"
#include "tests/soon.h"
#include "tests/worker/log_capture.h"

namespace babelring {
namespace {

/// Counts updates for other threads.
class CountingCollector : public Collector {
 public:
  void write(RecordBody body) override {
    const bool step = std::holds_alternative<StepRecord>(body);
    Collector::write(std::move(body));
    if (step && ++updates == fail_at) throw std::runtime_error("a rank was lost");
  }
  std::atomic<int> updates{0};
  int fail_at = 0;
};

/// Trains one rank; `guard` runs on the thread that writes a checkpoint, before the checkpoint becomes visible.
class BackgroundWriteTest : public testing::Test {
 protected:
  void train(const std::function<void()>& guard) {
    const Corpus corpus = small_corpus();
    const auto communicator = make_single_communicator();
    const auto backend = make_cpu_backend(1);
    Checkpointer keeper(config_, folder_.path(), "", *backend, *communicator, records_, guard);
    TextSource source(corpus, config_.plan_options());
    const StopRequest stop;
    Trainer trainer({.config = config_,
                     .backend = *backend,
                     .communicator = *communicator,
                     .source = source,
                     .checkpoints = &keeper,
                     .records = records_,
                     .stop = stop,
                     .model_vocabulary = pieces});
    trainer.begin("r_00000000000000000000000000", 1);
    trainer.run();
  }

  TemporaryFolder folder_;
  TrainConfig config_ = small_config();
  CountingCollector records_;
};

TEST_F(BackgroundWriteTest, TrainingGoesOnAndTheCheckpointHasTheStateOfItsUpdate) {
  config_.training.stop_after = "6u";
  config_.checkpoint.every = "2u";
  bool went_on = false;
  train([&] {
    if (!went_on) went_on = soon([&] { return records_.updates >= 3; });
  });
  EXPECT_TRUE(went_on);
  ASSERT_EQ(records_.checkpoints.size(), 3U);
  const std::vector<StepRecord> first_run = records_.steps;
  for (std::int64_t update = 6; update > 2; --update)
    std::filesystem::remove_all(folder_.path() / checkpoint_name(update));
  records_.steps.clear();
  train({});
  ASSERT_EQ(records_.steps.size(), 4U) << "resumed after update 2";
  for (std::size_t i = 0; i < 4; ++i) EXPECT_EQ(records_.steps[i].weights_digest, first_run[i + 2].weights_digest);
}

TEST_F(BackgroundWriteTest, AFenceEndsTheRunAtAnUpdateAfterIt) {
  config_.training.stop_after = "1000000u";
  config_.checkpoint.every = "2u";
  EXPECT_THROW(train([&] {
                 soon([&] { return records_.updates >= 3; });
                 throw Fenced("attempt 1 is over");
               }),
               Fenced);
  EXPECT_TRUE(records_.checkpoints.empty());
  EXPECT_TRUE(checkpoint_folders(folder_.path()).empty());
}

TEST_F(BackgroundWriteTest, AFailureOfTrainingWaitsForTheCheckpoint) {
  const LogCapture log;
  config_.training.stop_after = "1000000u";
  config_.checkpoint.every = "2u";
  records_.fail_at = 3;
  EXPECT_THROW(train([&] { soon([&] { return records_.updates >= 3; }); }), std::runtime_error);
  ASSERT_EQ(records_.checkpoints.size(), 1U);
  EXPECT_EQ(records_.checkpoints[0].update, 2);
  EXPECT_EQ(log.count("the checkpoint of update 2 is still being written: a rank was lost"), 1) << log.text();
}

}  // namespace
}  // namespace babelring
