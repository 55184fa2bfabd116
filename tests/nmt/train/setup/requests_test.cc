#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>

#include "base/records/run_marks.h"
#include "nmt/data/text_source.h"
#include "nmt/train/trainer.h"
#include "tests/nmt/data/synthetic.h"
#include "tests/nmt/train/small_training.h"
#include "tests/worker/log_capture.h"

namespace babelring {
namespace {

namespace fs = std::filesystem;

/// Trains one rank that receives stop and checkpoint requests.
class RequestsTest : public ::testing::Test {
 protected:
  RequestsTest() {
    std::string name = fs::temp_directory_path() / "babelring-requests-XXXXXX";
    folder_ = mkdtemp(name.data());
    config_ = small_config();
    config_.training.stop_after = "3u";
    config_.checkpoint.every = "0u";
  }
  ~RequestsTest() override { fs::remove_all(folder_); }

  TrainingEnd train(const std::function<void()>& guard = {}, const fs::path& chosen = {}) {
    const Corpus corpus =
        make_synthetic({.task = SyntheticTask::reverse, .sentences = 500, .vocabulary_size = pieces, .max_length = 12});
    const auto communicator = make_single_communicator();
    const auto backend = make_cpu_backend(1);
    Checkpointer keeper(config_, folder_, "", *backend, *communicator, records_, guard);
    TextSource source(corpus, config_.plan_options());
    Trainer trainer({.config = config_,
                     .backend = *backend,
                     .communicator = *communicator,
                     .source = source,
                     .checkpoints = &keeper,
                     .records = records_,
                     .stop = stop_,
                     .checkpoint_request = &checkpoint_request_,
                     .model_vocabulary = pieces});
    trainer.begin("r_00000000000000000000000000", 1, {.from = chosen});
    return trainer.run();
  }
  std::vector<std::int64_t> saved() const {
    std::vector<std::int64_t> updates;
    for (const CheckpointRecord& checkpoint : records_.checkpoints) {
      if (!checkpoint.removed) updates.push_back(checkpoint.update);
    }
    return updates;
  }

  fs::path folder_;
  TrainConfig config_;
  Collector records_;
  StopRequest stop_;
  CheckpointRequest checkpoint_request_;
};

TEST_F(RequestsTest, ACheckpointRequestIsExecutedOnce) {
  checkpoint_request_.request(2);
  checkpoint_request_.request(1);
  EXPECT_EQ(train().reason, EndReason::finished);
  EXPECT_EQ(saved(), (std::vector<std::int64_t>{1, 3}));
  EXPECT_EQ(checkpoint_request_.done(), 2);
}

TEST_F(RequestsTest, AStopCanSkipTheCheckpoint) {
  stop_.request_without_checkpoint();
  stop_.request();
  const TrainingEnd end = train();
  EXPECT_EQ(end.reason, EndReason::stopped_on_request);
  EXPECT_EQ(end.text, "stopped on request");
  EXPECT_EQ(records_.steps.size(), 1U);
  EXPECT_TRUE(saved().empty());
}

TEST_F(RequestsTest, AFencedAttemptEndsWithoutSaving) {
  const LogCapture log;
  EXPECT_THROW(train([] { throw Fenced("attempt 1 is over"); }), Fenced);
  EXPECT_TRUE(saved().empty());
  EXPECT_EQ(log.count("training goes on"), 0) << "not treated as a failed write";
}

TEST_F(RequestsTest, ResumesFromAChosenCheckpoint) {
  config_.checkpoint.every = "1u";
  train();
  const auto first = records_.steps;
  records_ = {};
  train({}, folder_ / "update-00000001");
  ASSERT_EQ(records_.steps.size(), 2U);
  EXPECT_EQ(records_.steps[0].update, 2);
  EXPECT_EQ(records_.steps[1].weights_digest, first[2].weights_digest);
  EXPECT_TRUE(fs::exists(folder_ / "aside/update-00000003"));
  EXPECT_THROW(train({}, folder_ / "update-00000009"), Failure);
}

}  // namespace
}  // namespace babelring
