#include "server/launch/supervisor.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <future>

#include "nmt/base/records.h"
#include "nmt/base/run_fence.h"
#include "server/store/queries.h"
#include "tests/launch/fake_launcher.h"

namespace babelring::launch {
namespace {

using namespace std::chrono_literals;
using testing::FakeLauncher;

/// A store, a launcher that starts nothing, and a clock that the test turns.
class SupervisorTest : public ::testing::Test {
 protected:
  SupervisorTest() {
    std::string name = std::filesystem::temp_directory_path() / "babelring-launch-XXXXXX";
    folder_ = mkdtemp(name.data());
    store_ = std::make_unique<store::Store>(folder_ / "data");
    auto fake = std::make_unique<FakeLauncher>();
    fake_ = fake.get();
    launchers_["mpirun"] = std::move(fake);
    profiles_["p"] = {.name = "p",
                      .worker = "worker",
                      .server = "http://s",
                      .folder = folder_,
                      .most_running = 2,
                      .heartbeat_timeout_s = 10,
                      .stall_timeout_s = 100,
                      .cool_down_s = 10};
    start();
  }
  ~SupervisorTest() override {
    supervisor_.reset();
    store_.reset();
    std::error_code ignored;
    std::filesystem::remove_all(folder_, ignored);
  }

  void start() {
    supervisor_ = std::make_unique<Supervisor>(SupervisorParts{.store = *store_,
                                                               .heartbeats = beats_,
                                                               .profiles = profiles_,
                                                               .launchers = launchers_,
                                                               .now = [this] { return now_; },
                                                               .changed = [this](const std::string&) { ++changes_; }});
  }
  std::string submit(std::int64_t world = 2, std::int64_t max_restarts = 1) {
    store::NewRun run{.id = make_id('r'),
                      .name = "n",
                      .profile = "p",
                      .config = "name: n\n",
                      .world_size = world,
                      .max_restarts = max_restarts,
                      .actor = "me"};
    run.folder = folder_ / run.id;
    store_->write([&](store::Database& database) { store::create_run(database, run, 1); });
    return run.id;
  }
  /// Time passes in ticks of a second.
  void pass(int seconds = 1) {
    for (int i = 0; i < seconds; ++i) {
      now_ += 1s;
      supervisor_->tick();
    }
  }
  void beat(const std::string& run, std::int64_t rank, std::int64_t attempt = 1, double since_update_s = 0) {
    beats_.note(run, {.attempt = attempt,
                      .rank = rank,
                      .pid = 5,
                      .update = 3,
                      .host = "h" + std::to_string(rank),
                      .since_update_s = since_update_s});
  }
  store::RunRow row(const std::string& run) {
    auto reader = store_->reader();
    return store::find_run(*reader, run).value();
  }
  std::string state(const std::string& run) { return row(run).state; }
  void say(const std::string& run, const char* event, std::int64_t attempt = 1) {
    Record record;
    record.header = {.run = run, .attempt = attempt, .sequence = ++sequence_, .rank = 0, .host = "h0", .time_ms = 1};
    record.body = LifecycleRecord{.event = event, .detail = "as told"};
    std::promise<void> done;
    store_->submit({run, attempt, 0, "h0", {record}},
                   [&](const store::Batch&, const store::IngestResult&) { done.set_value(); });
    done.get_future().get();
  }
  void stop(const std::string& run, const char* mode, std::int64_t grace_s) {
    store_->write([&](store::Database& database) { store::request_stop(database, run, mode, grace_s, "me", 2); });
  }
  /// Two ranks that report.
  std::string started() {
    const std::string run = submit();
    pass();
    beat(run, 0);
    beat(run, 1);
    pass();
    return run;
  }

  std::filesystem::path folder_;
  SteadyClock::time_point now_ = SteadyClock::time_point(1000h);
  std::unique_ptr<store::Store> store_;
  Heartbeats beats_{[this] { return now_; }};
  Profiles profiles_;
  Launchers launchers_;
  FakeLauncher* fake_ = nullptr;
  std::unique_ptr<Supervisor> supervisor_;
  int changes_ = 0;
  std::int64_t sequence_ = 0;
};

TEST_F(SupervisorTest, StartsInOrderAndNoMoreThanTheProfileAllows) {
  const std::string a = submit(), b = submit(), c = submit();
  EXPECT_EQ(supervisor_->tick(), 200ms);
  EXPECT_EQ(state(a), "launching");
  EXPECT_EQ(state(b), "launching");
  EXPECT_EQ(state(c), "queued");
  EXPECT_EQ(row(a).attempt, 1);
  fake_->sights[1001] = {.kind = Sight::Kind::ended, .exit_code = 0};
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

TEST_F(SupervisorTest, NamesASilentRankFencesItAndRestarts) {
  const std::string run = started();
  for (int i = 0; i < 8; ++i) {
    beat(run, 0);
    pass();
  }
  EXPECT_EQ(state(run), "running");
  for (int i = 0; i < 5 && state(run) == "running"; ++i) {
    beat(run, 0);
    pass();
  }
  EXPECT_EQ(state(run), "restarting");
  EXPECT_TRUE(row(run).detail.starts_with("rank 1 on h1 gave no sign of life for 1")) << row(run).detail;
  EXPECT_EQ(fake_->killed.size(), 1U);
  EXPECT_EQ(fenced_attempt(folder_ / run), 1);
  auto reader = store_->reader();
  EXPECT_TRUE(store::find_commands(*reader, run, 1)->fenced);
}

TEST_F(SupervisorTest, ShortSilenceAndSilenceOfAllAreEndured) {
  const std::string run = started();
  pass(9);
  beat(run, 0);
  beat(run, 1);
  pass(30);  // of all: it may be the network between them and us
  EXPECT_EQ(state(run), "running");
  pass(15);
  EXPECT_NE(state(run), "running");
}

TEST_F(SupervisorTest, ANapOfTheServerIsNoSilenceOfTheRanks) {
  const std::string run = started();
  now_ += 1h;
  supervisor_->tick();
  pass(5);
  EXPECT_EQ(state(run), "running");
}

TEST_F(SupervisorTest, NoticesThatNoUpdateComesAndThatARankNeverCame) {
  const std::string stuck = started();
  beat(stuck, 0, 1, 101);
  beat(stuck, 1, 1, 102);
  pass();
  pass();
  EXPECT_NE(state(stuck), "running");
  const std::string late = submit();
  profiles_["p"].launch_timeout_s = 5;
  pass(2);
  for (int i = 0; i < 6 && state(late) != "restarting"; ++i) {
    beat(late, 0);
    pass();
  }
  EXPECT_EQ(state(late), "restarting");
  EXPECT_EQ(row(late).detail, "rank 1 did not report within 5 s");
}

TEST_F(SupervisorTest, StopsAtOnceOrWithinTheGrace) {
  const std::string run = started();
  stop(run, "checkpoint", 5);
  pass(3);
  beat(run, 0);
  beat(run, 1);
  EXPECT_EQ(state(run), "stopping");
  EXPECT_TRUE(fake_->killed.empty());
  pass(5);
  EXPECT_EQ(state(run), "stopped");
  EXPECT_EQ(row(run).detail, "did not stop by itself within 5 s");
  const std::string other = started();
  stop(other, "now", 300);
  pass(2);
  EXPECT_EQ(state(other), "stopped");
  const std::string third = submit();
  stop(third, "checkpoint", 300);
  EXPECT_EQ(state(third), "stopped") << "it had not begun";
}

TEST_F(SupervisorTest, AnAttemptThatWillNotEndIsKilledUrgently) {
  const std::string run = started();
  fake_->obeys = false;
  stop(run, "now", 0);
  pass(3);
  EXPECT_EQ(state(run), "stopping");
  pass(3);
  EXPECT_EQ(state(run), "stopped");
}

TEST_F(SupervisorTest, FindsItsRunsAgain) {
  const std::string run = started();
  start();  // another server
  pass(3);
  EXPECT_EQ(state(run), "running");
  fake_->sights[fake_->last()] = {.kind = Sight::Kind::ended};  // of somebody else's child there is no exit code
  pass();
  EXPECT_EQ(state(run), "restarting");
  pass();
  start();
  pass();
  fake_->sights[fake_->last()] = {.kind = Sight::Kind::ended};
  pass();
  EXPECT_EQ(state(run), "lost") << "no restart is left, and how it ended nobody knows";
}

TEST_F(SupervisorTest, ALaunchThatTheLastServerDidNotNoteIsLookedFor) {
  const std::string run = submit();
  pass();
  store_->write([&](store::Database& database) { store::note_launcher(database, 1, 1, {}); });
  fake_->found = store::LauncherHandle{.pid = 1001, .start_ticks = 7, .job = ""};
  start();
  pass();
  EXPECT_EQ(state(run), "launching");
  fake_->end(0);
  pass();
  EXPECT_EQ(state(run), "succeeded");
}

TEST_F(SupervisorTest, WhatCannotBeSeenIsLostUntilItReports) {
  const std::string run = started();
  fake_->sights[fake_->last()] = {.kind = Sight::Kind::unknown, .detail = "squeue: no controller"};
  pass(90);
  EXPECT_EQ(state(run), "lost");
  EXPECT_EQ(row(run).detail, "squeue: no controller");
  now_ += 1s;
  EXPECT_EQ(supervisor_->tick(), 2s) << "only a heartbeat can change it";
  beat(run, 0);
  pass();
  EXPECT_EQ(state(run), "running");
}

TEST_F(SupervisorTest, PreemptionSuspendsAndGoesOn) {
  const std::string run = started();
  say(run, "stopped");  // as ranks do that were sent SIGTERM
  fake_->sights[fake_->last()] = {.kind = Sight::Kind::preempted, .detail = "preempted by Slurm"};
  pass();
  EXPECT_EQ(state(run), "suspended");
  pass();
  EXPECT_EQ(state(run), "launching");
  EXPECT_EQ(row(run).restarts, 0) << "no fault of its own";
}

TEST_F(SupervisorTest, WhatCannotBeStartedFails) {
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

TEST_F(SupervisorTest, RecordsTellTooThatAnAttemptRunsOrThatANewerOneWasStartedByHand) {
  const std::string run = submit();
  pass();
  say(run, "rank_up");
  EXPECT_EQ(state(run), "running");
  say(run, "rank_up", 2);
  EXPECT_EQ(row(run).attempt, 2);
  EXPECT_EQ(state(run), "running");
  auto reader = store_->reader();
  EXPECT_TRUE(store::find_commands(*reader, run, 1)->fenced);
  EXPECT_TRUE(store::active_launches(*reader).empty()) << "it is somebody else's now";
  say(run, "finished", 2);
  EXPECT_EQ(state(run), "succeeded");
  store_->write([&](store::Database& database) { store::request_resume(database, {.run = run, .actor = "me"}, 9); });
  pass();
  EXPECT_EQ(state(run), "launching") << "asked to go on, it is the server's again";
  EXPECT_EQ(fake_->orders.back().attempt, 3);
}

TEST_F(SupervisorTest, ARunStartedByHandThatIsSilentWhenItShallStopIsLostUntilItReports) {
  const std::string run = make_id('r');
  say(run, "rank_up");
  beat(run, 0);
  stop(run, "checkpoint", 300);
  ASSERT_EQ(state(run), "stopping");
  pass(59);
  EXPECT_EQ(state(run), "stopping");
  pass(3);
  EXPECT_EQ(state(run), "lost");
  EXPECT_EQ(row(run).detail, "it was asked to stop, and no rank reports any more");
  EXPECT_GE(changes_, 1);
  now_ += 1s;
  EXPECT_EQ(supervisor_->tick(), 2s);
  beat(run, 0);
  pass();
  EXPECT_EQ(state(run), "stopping") << "the wish still stands";
  auto reader = store_->reader();
  EXPECT_EQ(store::find_commands(*reader, run, 1)->stop_wish, "checkpoint");
  say(run, "stopped");
  EXPECT_EQ(state(run), "stopped");
  now_ += 1s;
  EXPECT_EQ(supervisor_->tick(), 30s);
}

TEST_F(SupervisorTest, ARunStartedByHandThatDoesNotStopWithinTheGraceIsFenced) {
  const std::string run = make_id('r');
  say(run, "rank_up");
  stop(run, "checkpoint", 5);
  for (int i = 0; i < 5; ++i) {
    beat(run, 0);
    pass();
  }
  EXPECT_EQ(state(run), "stopping");
  beat(run, 0);
  pass(2);
  EXPECT_EQ(state(run), "stopped");
  EXPECT_EQ(row(run).detail, "did not stop by itself within 5 s");
  auto reader = store_->reader();
  EXPECT_TRUE(store::find_commands(*reader, run, 1)->fenced);
}

TEST_F(SupervisorTest, ResumesWithAnotherWorldSizeFromAChosenCheckpoint) {
  const std::string run = started();
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
  EXPECT_EQ(fake_->orders.back().attempt, 2);
}

}  // namespace
}  // namespace babelring::launch
