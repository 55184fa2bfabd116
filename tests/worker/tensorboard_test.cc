#include "worker/tensorboard.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cmath>
#include <csignal>
#include <filesystem>
#include <string>

#include "base/atomic_file.h"
#include "tests/worker/log_capture.h"

namespace babelring {
namespace {

namespace fs = std::filesystem;

class TensorBoardTest : public testing::Test {
 protected:
  TensorBoardTest() { fs::remove_all(folder_); }
  ~TensorBoardTest() override { fs::remove_all(folder_); }
  const fs::path folder_ = testing::TempDir() + "tensorboard_test." + std::to_string(::getpid());
};

/// TensorBoard drops the events from a start on that it has read before: of its step and later ones.
TEST_F(TensorBoardTest, ARewindDiscardsLaterEvents) {
  TensorBoard board(folder_, "host", 0);
  const std::string start_at_6("\x10\x06\x3a\x02\x08\x01", 6);  // Event.step 6, Event.session_log.status START
  const auto content = [&] { return read_file(fs::directory_iterator(folder_)->path()); };
  board.write(StepRecord{.update = 6});
  EXPECT_THAT(content(), testing::Not(testing::HasSubstr(start_at_6)));
  board.write(LifecycleRecord{.event = "rewound", .update = 5});
  EXPECT_THAT(content(), testing::HasSubstr(start_at_6));
}

/// The group `train` has the losses of the updates, which are those of other sentences.
TEST_F(TensorBoardTest, TheTrainingSampleIsAGroupOfItsOwn) {
  TensorBoard board(folder_, "host", 0);
  board.write(EvalRecord{.update = 6, .set = "train", .loss = 2});
  board.write(EvalRecord{.update = 6, .set = "valid", .loss = 3});
  const std::string content = read_file(fs::directory_iterator(folder_)->path());
  EXPECT_THAT(content, testing::AllOf(testing::HasSubstr("train_sample/loss"), testing::HasSubstr("valid/loss"),
                                      testing::Not(testing::HasSubstr("train/loss"))));
}

TEST_F(TensorBoardTest, AFullDiskStopsEventsButNotTheRun) {
  TensorBoard board(folder_, "host", 0);
  std::signal(SIGXFSZ, SIG_IGN);
  struct rlimit before {};
  getrlimit(RLIMIT_FSIZE, &before);
  const struct rlimit small { 2000, before.rlim_max };
  setrlimit(RLIMIT_FSIZE, &small);
  std::string said;
  {
    LogCapture log;
    for (int i = 1; i < 20; ++i) board.write(StepRecord{.update = i, .loss = std::nan("")});
    said = log.text();
    EXPECT_EQ(log.count("no more events are written"), 1) << said;
  }
  setrlimit(RLIMIT_FSIZE, &before);
  EXPECT_THAT(said, testing::HasSubstr("File too large"));
}

}  // namespace
}  // namespace babelring
