#include "base/files.h"
#include "base/records/run_marks.h"
#include "tests/server/launch/supervisor_fixture.h"

namespace babelring::launch {
namespace {

using namespace std::chrono_literals;

/// How attempts begin and end, by themselves and when they are asked to.
class SupervisorTest : public SupervisorFixture {};

TEST_F(SupervisorTest, StartsInOrderAndNoMoreThanTheProfileAllows) {
  const std::string a = submit(), b = submit(), c = submit();
  EXPECT_EQ(supervisor_->tick(), 200ms);
  EXPECT_EQ(state(a), "launching");
  EXPECT_EQ(state(b), "launching");
  EXPECT_EQ(state(c), "queued");
  EXPECT_EQ(row(a).attempt, 1);
  say(a, "finished");
  fake_->statuses[1001] = {.kind = ProcessStatus::Kind::ended, .exit_code = 0};
  pass(2);
  EXPECT_EQ(state(a), "succeeded");
  EXPECT_EQ(state(c), "launching");
  EXPECT_EQ(fake_->orders.back().run, c);
}

TEST_F(SupervisorTest, FollowsARunToItsEnd) {
  const std::string run = started();
  EXPECT_EQ(state(run), "running");
  say(run, "finished");
  EXPECT_EQ(state(run), "running") << "its processes are still there";
  fake_->end(0);
  pass();
  EXPECT_EQ(state(run), "succeeded");
  EXPECT_EQ(row(run).detail, "as told");
  EXPECT_EQ(supervisor_->tick(), 30s) << "nothing is left to look at";
  EXPECT_GE(changes_, 3);
}

TEST_F(SupervisorTest, DoesNotTakeExitCode0ForTheEndOfTraining) {
  const std::string run = started();
  std::filesystem::create_directories(folder_ / run);
  write_file_atomically(
      launch_log_path(folder_ / run, 1),
      "PRTE has lost communication with a remote daemon.\n\n  HNP daemon   : [prterun-h0-7@0,0] on node h0\n"
      "  Remote daemon: [prterun-h0-7@0,1] on node h1\n");
  fake_->end(0);
  pass();
  EXPECT_EQ(state(run), "restarting");
  EXPECT_EQ(row(run).detail, "mpirun lost h1");
}

TEST_F(SupervisorTest, RestartsAfterAFaultAndThenGivesUp) {
  const std::string run = started();
  fake_->end(137);
  pass();
  EXPECT_EQ(state(run), "restarting");
  EXPECT_EQ(fenced_attempt(folder_ / run), 1);
  pass();
  EXPECT_EQ(state(run), "launching");
  EXPECT_EQ(row(run).attempt, 2);
  fake_->end(1);
  pass();
  EXPECT_EQ(state(run), "failed");
  EXPECT_EQ(row(run).detail, "mpirun ended with exit code 1");
}

TEST_F(SupervisorTest, WrongUsageIsNotTriedAgain) {
  const std::string run = started();
  fake_->end(2);
  pass();
  EXPECT_EQ(state(run), "failed");
}

TEST_F(SupervisorTest, TrainingThatDivergedIsNotTriedAgain) {
  const std::string run = started(),
                    why = "training diverged at update 40: 20 consecutive updates had a non-finite gradient";
  say(run, "failed", 1, why);
  fake_->end(1);
  pass();
  EXPECT_EQ(state(run), "failed");
  EXPECT_EQ(row(run).detail, why);
}

TEST_F(SupervisorTest, StopsAtOnceOrWithinTheGrace) {
  const std::string run = started();
  stop(run, store::StopMode::checkpoint, 5);
  pass(3);
  beat(run, 0);
  beat(run, 1);
  EXPECT_EQ(state(run), "stopping");
  EXPECT_TRUE(fake_->killed.empty());
  pass(5);
  EXPECT_EQ(state(run), "stopped");
  EXPECT_EQ(row(run).detail, "did not stop within 5 s");
  const std::string other = started();
  stop(other, store::StopMode::now, 300);
  pass(2);
  EXPECT_EQ(state(other), "stopped");
  const std::string third = submit();
  stop(third, store::StopMode::checkpoint, 300);
  EXPECT_EQ(state(third), "stopped") << "it had not begun";
}

/// Slurm calls a job pending also while it suspends it, and for a moment after a restart of its controller.
TEST_F(SupervisorTest, OnlyAPendingRunThatHasNotBegunIsCancelledByAStop) {
  const std::string begun = submit(1), waiting = submit(1);
  pass();
  beat(begun, 0);
  pass();
  ASSERT_EQ(state(begun), "running");
  for (const std::int64_t pid : {1001, 1002}) fake_->statuses[pid] = {.kind = ProcessStatus::Kind::pending};
  stop(begun, store::StopMode::checkpoint, 60);
  stop(waiting, store::StopMode::checkpoint, 60);
  pass(3);
  EXPECT_EQ(fake_->killed, std::vector<std::int64_t>{1002});
  EXPECT_EQ(state(waiting), "stopped");
  EXPECT_EQ(row(waiting).detail, "stopped before it started");
  EXPECT_EQ(state(begun), "stopping");
  fake_->statuses[1001] = {.kind = ProcessStatus::Kind::alive};
  say(begun, "stopped");
  fake_->statuses[1001] = {.kind = ProcessStatus::Kind::ended, .exit_code = 0};
  pass();
  EXPECT_EQ(state(begun), "stopped");
}

TEST_F(SupervisorTest, AnAttemptThatWillNotEndIsKilledUrgently) {
  const std::string run = started();
  fake_->obeys = false;
  stop(run, store::StopMode::now, 0);
  pass(3);
  EXPECT_EQ(state(run), "stopping");
  pass(3);
  EXPECT_EQ(state(run), "stopped");
}

TEST_F(SupervisorTest, PreemptionSuspendsAndGoesOn) {
  const std::string run = started();
  say(run, "stopped");  // as ranks do that were sent SIGTERM
  fake_->statuses[fake_->last()] = {.kind = ProcessStatus::Kind::preempted, .detail = "preempted by Slurm"};
  pass();
  EXPECT_EQ(state(run), "suspended");
  pass();
  EXPECT_EQ(state(run), "launching");
  EXPECT_EQ(row(run).restarts, 0) << "no fault of its own";
}

TEST_F(SupervisorTest, AJobThatItsSchedulerEndsGoesOnAlsoIfItsRanksSaved) {
  const std::string run = started();
  say(run, "stopped");
  fake_->statuses[fake_->last()] = {
      .kind = ProcessStatus::Kind::ended, .cause = ProcessStatus::Cause::revoked, .detail = "Slurm job 1: TIMEOUT"};
  pass();
  EXPECT_EQ(state(run), "restarting");
  const std::string other = started();
  say(other, "stopped");
  fake_->statuses[fake_->last()] = {.kind = ProcessStatus::Kind::ended, .cause = ProcessStatus::Cause::cancelled};
  pass();
  EXPECT_EQ(state(other), "stopped") << "somebody cancelled it";
}

TEST_F(SupervisorTest, FailsARunThatCannotStart) {
  fake_->refusal = "cannot start mpirun: No such file or directory";
  const std::string run = submit();
  pass();
  EXPECT_EQ(state(run), "failed");
  EXPECT_EQ(row(run).detail, "could not be started: cannot start mpirun: No such file or directory");
}

TEST_F(SupervisorTest, HostsThatFailedAreLeftOutWhileOthersSuffice) {
  profiles_["p"].hosts = {"h0:2", "h1:2", "h2:2"};
  const std::string run = submit(4, 5);
  pass();
  ASSERT_EQ(fake_->orders.back().hosts.size(), 2U);
  EXPECT_EQ(fake_->orders.back().hosts[0].name, "h0");
  for (int i = 0; i < 12 && state(run) != "restarting"; ++i) {
    for (const std::int64_t rank : {0, 2, 3}) beat(run, rank);
    if (i == 0) beat(run, 1);
    pass();
  }
  pass();
  ASSERT_EQ(fake_->orders.size(), 2U);
  EXPECT_EQ(fake_->orders.back().hosts[0].name, "h0");
  EXPECT_EQ(fake_->orders.back().hosts[1].name, "h2") << "h1 cools down";
}

TEST_F(SupervisorTest, FaultsOfNoListedHostAreTriedAgainOnceAtOnceAndThenAfterAPause) {
  for (const std::vector<std::string>& hosts : {std::vector<std::string>(), {"h0:2", "h1:2"}}) {
    profiles_["p"].hosts = hosts;
    start();
    const std::string run = submit(2, 5);
    for (int attempt = 1; attempt <= 2; ++attempt) {
      pass();
      ASSERT_EQ(row(run).attempt, attempt);
      fake_->end(1);
      pass();
      ASSERT_EQ(state(run), "restarting");
    }
    pass(15);
    EXPECT_EQ(state(run), "restarting");
    pass(5);
    EXPECT_EQ(state(run), "launching");
    say(run, "finished", 3);
    fake_->end(0);
    pass();
    EXPECT_EQ(state(run), "succeeded");
  }
}

/// A profile of two hosts with two ranks each. mpirun does not say which host was lost.
class UnnamedHost : public SupervisorFixture {
 protected:
  /// A run of four ranks whose attempt has ended since h1 was lost.
  std::string lost_h1(std::int64_t minimum_ranks) {
    profiles_["p"].hosts = {"h0:2", "h1:2"};
    profiles_["p"].minimum_ranks = minimum_ranks;
    start();
    const std::string run = submit(4, 2);
    pass();
    for (std::int64_t rank = 0; rank < 4; ++rank) beat(run, rank);
    pass();
    fake_->dead_hosts = {"h1"};
    fake_->end(1);
    pass();
    EXPECT_EQ(state(run), "restarting");
    return run;
  }
};

TEST_F(UnnamedHost, UsesUpOneRestart) {
  const std::string run = lost_h1(0);
  pass(300);
  EXPECT_EQ(fake_->orders.size(), 1U) << "nothing is started while h1 does not answer";
  EXPECT_EQ(row(run).restarts, 1);
  EXPECT_EQ(fake_->asked_hosts[0].size(), 2U);
  fake_->dead_hosts.clear();
  pass(150);
  ASSERT_EQ(fake_->orders.size(), 2U);
  EXPECT_EQ(fake_->orders[1].world_size, 4);
  EXPECT_EQ(row(run).restarts, 1);
}

TEST_F(UnnamedHost, IsFoundSoThatTheRunGoesOnWithoutIt) {
  lost_h1(2);
  pass(5);
  ASSERT_EQ(fake_->orders.size(), 2U);
  EXPECT_EQ(fake_->orders[1].world_size, 2);
  EXPECT_EQ(fake_->orders[1].hosts[0].name, "h0");
}

TEST_F(UnnamedHost, IsSearchedAlsoIfItsNameIsOnNoList) {
  profiles_["p"].hosts = {"h0:2", "h1:2"};
  start();
  const std::string run = submit(4, 2);
  pass();
  for (std::int64_t rank = 0; rank < 4; ++rank) beat(run, rank);
  pass();
  std::filesystem::create_directories(folder_ / run);
  write_file_atomically(launch_log_path(folder_ / run, 1),
                        "ORTE has lost communication with a remote daemon.\n  Remote daemon: [[5,0],1] on node oak\n");
  fake_->dead_hosts = {"h1"};
  fake_->end(1);
  pass(300);
  EXPECT_EQ(row(run).restarts, 1) << "oak is h1, which the search finds";
  EXPECT_EQ(fake_->orders.size(), 1U);
}

TEST_F(UnnamedHost, RestartsAtOnceIfAllHostsAnswer) {
  const std::string run = lost_h1(0);
  fake_->dead_hosts.clear();
  pass(2);
  EXPECT_EQ(fake_->orders.size(), 2U);
  fake_->end(1);
  pass(2);
  fake_->answer = std::nullopt;  // being asked
  pass(60);
  EXPECT_EQ(fake_->orders.size(), 2U);
  EXPECT_EQ(row(run).restarts, 2);
}

/// A profile of two hosts with two ranks each, whose runs go on with one host.
class MinimumRanks : public SupervisorFixture {
 protected:
  /// A run of four ranks that lost h1 and trains with the two of h0.
  std::string reduced() {
    profiles_["p"].hosts = {"h0:2", "h1:2"};
    profiles_["p"].minimum_ranks = 2;
    start();
    const std::string run = submit(4, 5);
    pass();
    for (int i = 0; i < 12 && state(run) != "restarting"; ++i) {
      for (const std::int64_t rank : {0, 2, 3}) beat(run, rank);
      if (i == 0) beat(run, 1);  // of h1
      pass();
    }
    pass();
    report_all(run, 2, 2);
    return run;
  }
  void report_all(const std::string& run, std::int64_t attempt, std::int64_t ranks) {
    for (std::int64_t rank = 0; rank < ranks; ++rank) beat(run, rank, attempt);
    pass();
  }
};

TEST_F(MinimumRanks, ARunGoesOnWithTheHostsThatRemain) {
  const std::string run = reduced();
  ASSERT_EQ(fake_->orders.size(), 2U);
  EXPECT_EQ(fake_->orders[1].world_size, 2);
  ASSERT_EQ(fake_->orders[1].hosts.size(), 1U);
  EXPECT_EQ(fake_->orders[1].hosts[0].name, "h0");
  for (int i = 0; i < 200; ++i) report_all(run, 2, 2);
  EXPECT_EQ(state(run), "running") << "nobody waits for ranks 2 and 3";
  EXPECT_TRUE(fake_->asked_hosts.empty()) << "no checkpoint yet";
}

TEST_F(MinimumRanks, GetsItsRanksBackAtTheCheckpointAfterTheHostAnswers) {
  const std::string run = reduced();
  fake_->answer = false;
  for (int i = 0; i < 30; ++i) report_all(run, 2, 2);
  say_checkpoint(run, 2, 100);
  report_all(run, 2, 2);
  ASSERT_EQ(fake_->asked_hosts.size(), 1U);
  EXPECT_EQ(fake_->asked_hosts[0].size(), 2U);
  fake_->answer = true;
  for (int i = 0; i < 5; ++i) report_all(run, 2, 2);
  EXPECT_EQ(fake_->asked_hosts.size(), 1U) << "not before the next checkpoint";
  say_checkpoint(run, 2, 200);
  report_all(run, 2, 2);
  EXPECT_EQ(fake_->asked, std::vector<std::int64_t>{1002});
  EXPECT_EQ(state(run), "running") << "it saves";
  say(run, "stopped", 2);
  fake_->end(0);
  pass();
  EXPECT_EQ(state(run), "suspended");
  EXPECT_EQ(row(run).detail, "all hosts answer: continues with 4 ranks");
  pass();
  ASSERT_EQ(fake_->orders.size(), 3U);
  EXPECT_EQ(fake_->orders[2].world_size, 4);
  EXPECT_EQ(row(run).restarts, 1) << "only the fault counts";
  report_all(run, 3, 4);
  say_checkpoint(run, 3, 300);
  for (int i = 0; i < 5; ++i) report_all(run, 3, 4);
  EXPECT_EQ(fake_->asked.size(), 1U) << "it is complete";
}

TEST_F(MinimumRanks, RanksThatDoNotSaveInTimeAreEnded) {
  const std::string run = reduced();
  for (int i = 0; i < 30; ++i) report_all(run, 2, 2);
  say_checkpoint(run, 2, 100);
  for (int i = 0; i < 310 && state(run) == "running"; ++i) report_all(run, 2, 2);
  EXPECT_EQ(state(run), "suspended");
  EXPECT_FALSE(fake_->killed.empty());
}

TEST_F(SupervisorTest, AServerThatEndsSuspendsItsRunsAndTheNextContinuesThem) {
  profiles_["p"].max_running = 3;
  const std::string run = started(), stopping = started(), launching = submit();
  pass();
  const std::string waiting = submit();
  stop(stopping, store::StopMode::checkpoint, 300);
  supervisor_->suspend_runs(false);
  pass();
  EXPECT_EQ(fake_->killed, std::vector<std::int64_t>{1003}) << "its ranks might not hear the signal";
  EXPECT_TRUE(supervisor_->is_suspending());
  EXPECT_EQ(fake_->asked, std::vector<std::int64_t>{1001}) << "the other is asked already";
  for (const std::string& one : {run, stopping}) say(one, "stopped");
  for (const std::int64_t pid : {1001, 1002})
    fake_->statuses[pid] = {.kind = ProcessStatus::Kind::ended, .exit_code = 0};
  pass(5);
  EXPECT_FALSE(supervisor_->is_suspending());
  EXPECT_EQ(state(run), "suspended");
  EXPECT_EQ(state(launching), "suspended");
  EXPECT_EQ(state(stopping), "stopped");
  EXPECT_EQ(state(waiting), "queued") << "nothing is started any more";
  start();
  pass();
  EXPECT_EQ(row(launching).restarts, 0);
  EXPECT_EQ(state(run), "launching");
  EXPECT_EQ(row(run).attempt, 2);
  EXPECT_EQ(row(run).restarts, 0);
  EXPECT_EQ(state(waiting), "launching");
}

TEST_F(SupervisorTest, AServerThatEndsLeavesRunsElsewhereAloneUnlessItIsToldOtherwise) {
  const std::string run = started();
  fake_->beside_server = false;
  supervisor_->suspend_runs(false);
  pass(2);
  EXPECT_FALSE(supervisor_->is_suspending());
  EXPECT_TRUE(fake_->asked.empty());
  supervisor_->suspend_runs(true);
  pass(2);
  EXPECT_EQ(fake_->asked.size(), 1U) << "asked once";
  EXPECT_EQ(state(run), "running") << "it saves";
}

TEST_F(SupervisorTest, RunsThatWentWithTheirContainerGoOnHoweverOften) {
  const std::string run = started();
  absence_ = Absence::world;
  for (int restart = 1; restart <= 5; ++restart) {
    fake_->statuses[fake_->last()] = {.kind = ProcessStatus::Kind::ended};
    start();
    pass();
    EXPECT_EQ(state(run), "suspended");
    pass();
    ASSERT_EQ(row(run).attempt, restart + 1);
    EXPECT_EQ(row(run).restarts, 0);
  }
  fake_->end(137);
  pass();
  EXPECT_EQ(state(run), "restarting") << "this server saw it end";
  EXPECT_EQ(row(run).restarts, 1);
}

TEST_F(SupervisorTest, AnAttemptEndsThoughItsFolderCannotBeReached) {
  const std::string run = started();
  std::filesystem::remove_all(folder_ / run);
  std::filesystem::create_symlink(folder_ / run, folder_ / run);
  fake_->end(137);
  pass();
  EXPECT_EQ(state(run), "restarting");
}

TEST_F(SupervisorTest, TellsAStartWhichCheckpointItMustFind) {
  const std::string run = started();
  EXPECT_EQ(fake_->orders.back().expect_checkpoint, 0);
  say_checkpoint(run, 1, 40);
  fake_->end(137);
  pass(3);
  ASSERT_EQ(row(run).attempt, 2);
  EXPECT_EQ(fake_->orders.back().expect_checkpoint, 40);
  const std::vector<std::string> command = worker_command({}, fake_->orders.back());
  EXPECT_EQ(std::vector(command.end() - 2, command.end()), (std::vector<std::string>{"--expect-checkpoint", "40"}));
}

TEST_F(SupervisorTest, ResumesWithAnotherWorldSizeFromAChosenCheckpoint) {
  const std::string run = started();
  say_checkpoint(run, 1, 4);
  say(run, "stopped");
  fake_->end(0);
  pass();
  ASSERT_EQ(state(run), "stopped");
  store_->write([&](store::Database& database) {
    store::request_resume(database, {.run = run, .actor = "me", .world_size = 3, .folder = "/c/update-5", .step = 5},
                          9);
  });
  pass();
  EXPECT_EQ(state(run), "launching");
  EXPECT_EQ(fake_->orders.back().world_size, 3);
  EXPECT_EQ(fake_->orders.back().resume_from, "/c/update-5");
  EXPECT_EQ(fake_->orders.back().expect_checkpoint, 0);
  EXPECT_EQ(fake_->orders.back().attempt, 2);
}

}  // namespace
}  // namespace babelring::launch
