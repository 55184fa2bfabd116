#include "nmt/train/checkpointing/checkpoint_policy.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/failure.h"
#include "tests/worker/log_capture.h"

namespace babelring {
namespace {

using testing::HasSubstr;
using testing::ThrowsMessage;

class CheckpointPolicyTest : public testing::Test {
 protected:
  CheckpointPolicy policy(const char* every, CheckpointRequest* request = nullptr) {
    CheckpointConfig config;
    config.every = every;
    return CheckpointPolicy(
        config,
        [this]() -> Status {
          ++writes_;
          if (disk_full_) return Error{"no space left"};
          return {};
        },
        request);
  }
  static void train(CheckpointPolicy& policy, std::int64_t update, bool voted = false) {
    policy.note({.update = update - 1}, {.update = update}, voted);
  }

  int writes_ = 0;
  bool disk_full_ = false;
};

TEST_F(CheckpointPolicyTest, IsDueAtIntervalsUntilItWasWritten) {
  CheckpointPolicy policy = this->policy("2u");
  train(policy, 1);
  EXPECT_FALSE(policy.due());
  train(policy, 2);
  EXPECT_TRUE(policy.due());
  train(policy, 3);
  EXPECT_TRUE(policy.due()) << "the trainer put it off";
  EXPECT_TRUE(policy.save(3).ok());
  EXPECT_FALSE(policy.due());
}

TEST_F(CheckpointPolicyTest, WritesAnUpdateOnce) {
  CheckpointPolicy policy = this->policy("0u");
  EXPECT_TRUE(policy.save(7).ok());
  policy.save_last(7);
  EXPECT_EQ(writes_, 1);
  policy.restored(5);
  EXPECT_TRUE(policy.save(5).ok());
  EXPECT_EQ(writes_, 1) << "update 5 was read from disk";
  EXPECT_TRUE(policy.save(7).ok());
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
  EXPECT_FALSE(policy.save(1).ok());
  EXPECT_EQ(request.done(), 2);
  EXPECT_FALSE(policy.vote());
  train(policy, 2);
  EXPECT_FALSE(policy.due());
}

TEST_F(CheckpointPolicyTest, ARequestDuringTheUpdateWaitsForTheNextVote) {
  CheckpointRequest request;
  CheckpointPolicy policy = this->policy("1u", &request);
  request.request(1);
  EXPECT_TRUE(policy.vote());
  request.request(2);
  EXPECT_TRUE(policy.save(1).ok());
  EXPECT_EQ(request.done(), 1);
  EXPECT_TRUE(policy.vote());
}

TEST_F(CheckpointPolicyTest, OnlyTheLastFailureEndsTheRun) {
  const LogCapture log;
  CheckpointPolicy policy = this->policy("1u");
  policy.save_meanwhile(1);
  disk_full_ = true;
  policy.save_meanwhile(2);
  EXPECT_EQ(log.count("checkpoint of update 2 was not written, training goes on: no space left"), 1);
  EXPECT_THAT([&] { policy.save_last(3); },
              ThrowsMessage<Failure>(HasSubstr("checkpoint of update 3 was not written, and what was trained since "
                                               "update 1 is lost: no space left")));
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
