#include "nmt/train/checkpointing/checkpoint_policy.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/failure.h"
#include "base/result.h"
#include "tests/worker/log_capture.h"

namespace babelring {
namespace {

using testing::HasSubstr;
using testing::ThrowsMessage;

class CheckpointPolicyTest : public testing::Test {
 protected:
  /// Each write ends at once unless slow_ is set; then it ends when it is waited for, or once slow_ is false again.
  CheckpointPolicy policy(const char* every, CheckpointRequest* request = nullptr) {
    CheckpointConfig config;
    config.every = every;
    const auto finish = [this](FinishSave how) -> std::optional<Status> {
      how_ = how;
      if (slow_ && how == FinishSave::poll) return std::nullopt;
      ++finished_;
      if (disk_full_) return Error{"no space left"};
      return Status();
    };
    return CheckpointPolicy(
        config,
        {.start = [this] { ++writes_; }, .busy = [this] { return slow_; }, .finish = finish, .reports = reports_},
        request);
  }
  static void train(CheckpointPolicy& policy, std::int64_t update, bool voted = false, bool writing = false) {
    policy.note({.update = update - 1}, {.update = update}, voted, writing);
  }

  int writes_ = 0, finished_ = 0;
  FinishSave how_ = FinishSave::poll;  // the last call
  bool disk_full_ = false, slow_ = false, reports_ = true;
};

TEST_F(CheckpointPolicyTest, IsDueAtIntervalsUntilItWasWritten) {
  CheckpointPolicy policy = this->policy("2u");
  train(policy, 1);
  EXPECT_FALSE(policy.due());
  train(policy, 2);
  EXPECT_TRUE(policy.due());
  train(policy, 3);
  EXPECT_TRUE(policy.due()) << "the trainer put it off";
  policy.save(3);
  EXPECT_FALSE(policy.due());
}

TEST_F(CheckpointPolicyTest, WritesAnUpdateOnce) {
  CheckpointPolicy policy = this->policy("0u");
  policy.save(7);
  policy.save_last(7);
  EXPECT_EQ(writes_, 1);
  policy.restored(5);
  policy.save(5);
  EXPECT_EQ(writes_, 1) << "update 5 was read from disk";
  policy.save(7);
  EXPECT_EQ(writes_, 2);
}

TEST_F(CheckpointPolicyTest, TheNextWriteWaitsForTheOneInProgress) {
  CheckpointPolicy policy = this->policy("1u");
  slow_ = true;
  policy.save(1);
  policy.save(1);
  EXPECT_EQ(writes_, 1);
  EXPECT_EQ(finished_, 0) << "the same update: nobody waits";
  train(policy, 2);
  EXPECT_EQ(finished_, 0);
  policy.save(2);
  EXPECT_EQ(finished_, 1);
  EXPECT_EQ(writes_, 2);
  policy.save_last(2);
  EXPECT_EQ(finished_, 2);
  EXPECT_EQ(writes_, 2);
}

TEST_F(CheckpointPolicyTest, ARequestIsVotedForUntilACheckpointWasTried) {
  CheckpointRequest request;
  CheckpointPolicy policy = this->policy("0u", &request);
  EXPECT_FALSE(policy.vote());
  request.request(2);
  EXPECT_TRUE(policy.vote());
  train(policy, 1, true);
  EXPECT_TRUE(policy.due());
  EXPECT_TRUE(policy.vote()) << "put off";
  disk_full_ = true;
  policy.save(1);
  EXPECT_FALSE(policy.vote());
  train(policy, 2);
  EXPECT_EQ(request.done(), 2);
  EXPECT_FALSE(policy.vote());
  EXPECT_FALSE(policy.due());
}

TEST_F(CheckpointPolicyTest, ARequestDuringTheUpdateWaitsForTheNextVote) {
  CheckpointRequest request;
  CheckpointPolicy policy = this->policy("1u", &request);
  request.request(1);
  EXPECT_TRUE(policy.vote());
  request.request(2);
  policy.save(1);
  train(policy, 2);
  EXPECT_EQ(request.done(), 1);
  EXPECT_TRUE(policy.vote());
}

TEST_F(CheckpointPolicyTest, ARequestIsExecutedWhenItsWriteEnds) {
  CheckpointRequest request;
  CheckpointPolicy policy = this->policy("0u", &request);
  slow_ = true;
  request.request(1);
  EXPECT_TRUE(policy.vote());
  policy.save(1);
  EXPECT_EQ(request.done(), 0);
  EXPECT_FALSE(policy.vote()) << "its checkpoint is being written";
  request.request(2);
  EXPECT_TRUE(policy.vote());
  slow_ = false;
  train(policy, 2, true);
  EXPECT_EQ(request.done(), 1);
  policy.save(2);
  train(policy, 3);
  EXPECT_EQ(request.done(), 2);
}

TEST_F(CheckpointPolicyTest, OnlyTheLastFailureEndsTheRun) {
  const LogCapture log;
  CheckpointPolicy policy = this->policy("1u");
  policy.save(1);
  train(policy, 2);
  disk_full_ = true;
  policy.save(2);
  train(policy, 3);
  EXPECT_EQ(log.count("checkpoint of update 2 was not written, training goes on: no space left"), 1);
  EXPECT_THAT([&] { policy.save_last(3); },
              ThrowsMessage<Failure>(HasSubstr("checkpoint of update 3 was not written, and what was trained since "
                                               "update 1 is lost: no space left")));
}

TEST_F(CheckpointPolicyTest, AFailureIsLoggedAtTheUpdateAfterIt) {
  const LogCapture log;
  CheckpointPolicy policy = this->policy("1u");
  slow_ = disk_full_ = true;
  policy.save(1);
  slow_ = false;
  EXPECT_EQ(log.count("was not written"), 0);
  train(policy, 2);
  EXPECT_EQ(log.count("checkpoint of update 1 was not written, training goes on: no space left"), 1);
  disk_full_ = false;
  policy.save_last(2);
  EXPECT_EQ(writes_, 2);
}

TEST_F(CheckpointPolicyTest, TheOutcomeIsAskedForWhenNoRankWasWriting) {
  CheckpointPolicy policy = this->policy("1u");
  EXPECT_FALSE(policy.writing());
  slow_ = true;
  policy.save(1);
  EXPECT_TRUE(policy.writing());
  slow_ = false;
  EXPECT_FALSE(policy.writing());
  train(policy, 2, false, true);
  EXPECT_EQ(finished_, 0) << "another rank was writing before the update";
  train(policy, 3);
  EXPECT_EQ(finished_, 1);
}

TEST_F(CheckpointPolicyTest, OneRankReportsFailures) {
  const LogCapture log;
  reports_ = false;
  CheckpointPolicy policy = this->policy("1u");
  disk_full_ = true;
  policy.save(1);
  policy.save_last(2);
  EXPECT_EQ(writes_, 2);
  EXPECT_EQ(log.text(), "");
}

TEST_F(CheckpointPolicyTest, AfterAFailureTheWriteInProgressIsWaitedFor) {
  const LogCapture log;
  CheckpointPolicy policy = this->policy("1u");
  policy.finish_after("a rank was lost");
  EXPECT_EQ(log.count("a rank was lost"), 0) << "nothing to wait for";
  slow_ = true;
  policy.save(1);
  disk_full_ = true;
  policy.finish_after("a rank was lost");
  EXPECT_EQ(finished_, 1);
  EXPECT_EQ(how_, FinishSave::alone);
  EXPECT_EQ(log.count("checkpoint of update 1 was not written: no space left"), 1);
  EXPECT_EQ(log.count("the checkpoint of update 1 is still being written: a rank was lost"), 1);
}

TEST_F(CheckpointPolicyTest, WithoutAWriterNothingIsSaved) {
  CheckpointRequest request;
  request.request(1);
  CheckpointPolicy policy({}, {}, &request);
  EXPECT_TRUE(policy.vote());
  policy.save_last(1);
  EXPECT_EQ(request.done(), 1);
}

}  // namespace
}  // namespace babelring
