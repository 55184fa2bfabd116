#include "server/launch/evaluation_jobs.h"

#include <gtest/gtest.h>

#include <fstream>
#include <vector>

#include "server/store/control.h"
#include "tests/server/launch/supervisor_fixture.h"

namespace babelring::launch {
namespace {

using Kind = ProcessStatus::Kind;

class EvaluationJobsTest : public SupervisorFixture {
 protected:
  EvaluationJobsTest() { profiles_["p"].evaluation = {"nmt", "evaluate", "--watch", "{run}"}; }

  /// The entries of the run's history about its evaluation.
  std::vector<std::string> told(const std::string& run) {
    auto reader = store_->reader();
    std::vector<std::string> causes;
    for (const auto& row : store::list_transitions(*reader, store::find_run(*reader, run)->number, 0, 100)) {
      if (row.event == "evaluation_failed") causes.push_back(row.cause);
    }
    return causes;
  }
  std::size_t started_jobs() const { return fake_->evaluated.size(); }
};

TEST_F(EvaluationJobsTest, AreStartedAgainLaterAndLaterAndTheRunSaysSo) {
  const std::string run = started();
  EXPECT_EQ(fake_->evaluated, std::vector{run});
  std::ofstream(evaluation_log_path(folder_ / run)) << "watching\nnmt: no set 'none'\n\n";
  fake_->end_evaluation({.kind = Kind::ended, .exit_code = 1});
  pass();
  EXPECT_EQ(told(run), std::vector<std::string>{
                           "its evaluation ended with exit code 1: nmt: no set 'none'; it is started again in 10 s"});
  EXPECT_EQ(state(run), "running");
  beat(run, 0);
  beat(run, 1);
  pass(9);
  EXPECT_EQ(started_jobs(), 1U);
  pass(1);
  EXPECT_EQ(started_jobs(), 2U);
  fake_->end_evaluation({.kind = Kind::ended, .exit_code = 128 + 9});
  pass();
  EXPECT_EQ(told(run).back(), "its evaluation ended with signal 9: nmt: no set 'none'; it is started again in 20 s");
}

TEST_F(EvaluationJobsTest, ThatFailAgainAndAgainWaitForTheNextAttempt) {
  fake_->evaluation_refusal = "sbatch: not found";
  const std::string run = started();
  for (int i = 0; i < 1000; ++i) {
    beat(run, 0);
    beat(run, 1);
    pass();
  }
  EXPECT_EQ(started_jobs(), static_cast<std::size_t>(EvaluationJobs::max_failures));
  EXPECT_EQ(told(run).front(), "its evaluation could not be started: sbatch: not found; it is started again in 10 s");
  EXPECT_EQ(told(run).back(),
            "its evaluation could not be started: sbatch: not found; the next attempt starts it again");
  EXPECT_EQ(state(run), "running") << "the run does not depend on it";
  fake_->end(1);
  pass(60);
  EXPECT_EQ(started_jobs(), EvaluationJobs::max_failures + 1U) << "the next attempt";
}

TEST_F(EvaluationJobsTest, EndedOnPurposeOrByWrongUsageAreNotStartedAgain) {
  for (const ProcessStatus& end :
       {ProcessStatus{.kind = Kind::ended, .exit_code = 2}, ProcessStatus{.kind = Kind::ended, .exit_code = 128 + 15},
        ProcessStatus{.kind = Kind::ended, .cause = ProcessStatus::Cause::cancelled}}) {
    const std::string run = started();
    const std::size_t before = started_jobs();
    fake_->end_evaluation(end);
    pass(5);
    EXPECT_EQ(started_jobs(), before);
    EXPECT_EQ(told(run).size(), 1U);
    EXPECT_TRUE(told(run)[0].ends_with("the next attempt starts it again")) << told(run)[0];
    say(run, "stopped");
    fake_->end(0);
    pass();
  }
}

TEST_F(EvaluationJobsTest, GoOnAfterTheEndOfTheRunUntilTheLastCheckpointIsEvaluated) {
  const std::string run = started();
  say(run, "finished");
  fake_->end(0);
  pass();
  EXPECT_EQ(state(run), "succeeded");
  fake_->end_evaluation({.kind = Kind::ended, .exit_code = 1});
  pass(12);
  EXPECT_EQ(started_jobs(), 2U);
  fake_->end_evaluation({.kind = Kind::ended, .exit_code = 0});
  pass(100);
  EXPECT_EQ(started_jobs(), 2U);
  EXPECT_EQ(told(run).size(), 1U);
  EXPECT_EQ(state(run), "succeeded");
}

TEST_F(EvaluationJobsTest, AreFoundByAServerThatIsStartedAgain) {
  const std::string run = started();
  start();
  beat(run, 0);
  beat(run, 1);
  pass();
  EXPECT_EQ(started_jobs(), 2U) << "the launcher returns the one in progress";
  fake_->end_evaluation({.kind = Kind::ended});  // its exit code is unknown: it is no child of this process
  pass(12);
  EXPECT_EQ(started_jobs(), 3U);
}

}  // namespace
}  // namespace babelring::launch
