#include "server/launch/attempt_watch.h"

#include <gtest/gtest.h>

#include <chrono>
#include <filesystem>

#include "base/files.h"
#include "base/records/run_marks.h"

namespace babelring::launch {
namespace {

using namespace std::chrono_literals;
using Time = AttemptWatch::Time;

constexpr Time start_time = Time(100h);
const Profile watched_profile{.launch_timeout_s = 60, .heartbeat_timeout_s = 10, .stall_timeout_s = 100};

ReceivedHeartbeat beat(std::int64_t rank, Time at, double since_update_s = 0) {
  return {.beat = {.rank = rank, .host = "h" + std::to_string(rank), .since_update_s = since_update_s}, .at = at};
}

WatchTimes at(Time now) {
  return {.now = now, .heard_until = now, .awake_since = {}};
}

/// The cause of the fault of two ranks; empty: none.
std::string fault_of(const AttemptWatch& watch, const AttemptWatch::Beats& beats, const WatchTimes& times) {
  const auto fault = watch.find_fault(watched_profile, 2, beats, times);
  return fault ? fault->cause : "";
}

TEST(AttemptWatch, NamesTheSilentRankAndItsHost) {
  const AttemptWatch watch(1, start_time, true);
  const AttemptWatch::Beats beats = {beat(0, start_time + 20s), beat(1, start_time + 9s)};
  EXPECT_EQ(fault_of(watch, beats, at(start_time + 19s)), "");
  EXPECT_EQ(fault_of(watch, beats, at(start_time + 20s)), "rank 1 on h1 sent no heartbeat for 11.0 s");
  EXPECT_EQ(watch.find_fault(watched_profile, 2, beats, at(start_time + 20s))->host, "h1");
}

TEST(AttemptWatch, SilenceOfAllRanksMayBeTheNetwork) {
  const AttemptWatch watch(1, start_time, true);
  const AttemptWatch::Beats beats = {beat(0, start_time), beat(1, start_time)};
  EXPECT_EQ(fault_of(watch, beats, at(start_time + 40s)), "");
  EXPECT_EQ(fault_of(watch, beats, at(start_time + 41s)), "rank 0 on h0 sent no heartbeat for 41.0 s");
}

TEST(AttemptWatch, SilenceBeforeADelayOfTheSupervisorDoesNotCount) {
  const AttemptWatch watch(1, start_time, true);
  const AttemptWatch::Beats beats = {beat(0, start_time + 1h), beat(1, start_time)};
  WatchTimes times = at(start_time + 1h);
  EXPECT_NE(fault_of(watch, beats, times), "");
  times.awake_since = start_time + 1h - 5s;
  EXPECT_EQ(fault_of(watch, beats, times), "");
  times = {.now = start_time + 1h, .heard_until = start_time + 8s, .awake_since = {}};
  EXPECT_EQ(fault_of(watch, beats, times), "") << "later heartbeats wait to be processed";
}

TEST(AttemptWatch, EachRankMustReportSoonAfterTheStart) {
  AttemptWatch watch(1, start_time, true);
  const AttemptWatch::Beats beats = {beat(0, start_time + 61s)};
  EXPECT_EQ(fault_of(watch, beats, at(start_time + 60s)), "");
  EXPECT_EQ(fault_of(watch, beats, at(start_time + 61s)), "rank 1 did not report within 60 s");
  watch.set_pending(start_time + 30s);  // the scheduler started it later
  EXPECT_EQ(fault_of(watch, beats, at(start_time + 61s)), "");
}

TEST(AttemptWatch, RanksThatReportButMakeNoUpdatesHaveStalled) {
  const AttemptWatch watch(1, start_time, true);
  const Time now = start_time + 200s;
  EXPECT_EQ(fault_of(watch, {beat(0, now, 150), beat(1, now, 99)}, at(now)), "");
  EXPECT_EQ(fault_of(watch, {beat(0, now, 150), beat(1, now, 101)}, at(now)),
            "no update for 101 s although all ranks report");
}

TEST(AttemptWatch, AStopHasTheGracePeriodOfTheRunIfItReachesTheRanks) {
  store::LaunchRow run;
  run.stop_mode = store::StopMode::checkpoint;
  run.stop_grace_s = 30;
  const AttemptWatch::Beats beats = {beat(0, start_time)};
  AttemptWatch watch(1, start_time, true);
  EXPECT_FALSE(watch.stop_overdue(run, beats, start_time + 5s));
  EXPECT_FALSE(watch.stop_overdue(run, beats, start_time + 35s));
  EXPECT_EQ(watch.stop_overdue(run, beats, start_time + 36s)->cause, "did not stop within 30 s");
  EXPECT_EQ(watch.stop_overdue(run, {}, start_time + 9s)->cause, "stopped immediately") << "no rank has reported";
  run.stop_mode = store::StopMode::now;
  EXPECT_EQ(watch.stop_overdue(run, beats, start_time + 5s)->cause, "stopped immediately");
}

TEST(AttemptWatch, IsLostAfterAMinuteWithoutStatusAndHeartbeats) {
  AttemptWatch watch(1, start_time, false);
  EXPECT_FALSE(watch.is_lost_unseen({}, at(start_time)));
  EXPECT_FALSE(watch.is_lost_unseen({}, at(start_time + 60s)));
  EXPECT_TRUE(watch.is_lost_unseen({}, at(start_time + 61s)));
  EXPECT_FALSE(watch.is_lost_unseen({beat(0, start_time + 30s)}, at(start_time + 61s))) << "a rank still reports";
  watch.set_seen();
  EXPECT_FALSE(watch.is_lost_unseen({}, at(start_time + 200s))) << "the minute begins again";
}

TEST(AttemptWatch, TheRanksReportOutweighsTheLaunchersStatus) {
  store::LaunchRow run;
  run.launcher = "mpirun";
  const ProcessStatus killed{.kind = ProcessStatus::Kind::ended, .exit_code = 137, .detail = ""};
  EXPECT_EQ(classify_end(run, nullptr, killed, Absence::none).event, store::RunEvent::faulted);
  EXPECT_EQ(classify_end(run, nullptr, killed, Absence::none).cause, "mpirun was killed by signal 9");
  const ProcessStatus odd{.kind = ProcessStatus::Kind::ended, .exit_code = 255, .detail = ""};
  EXPECT_EQ(classify_end(run, nullptr, odd, Absence::none).cause, "mpirun ended with exit code 255");
  const Ending silent{store::RunEvent::faulted, "silent", "h1"};
  EXPECT_EQ(classify_end(run, &silent, killed, Absence::none).host, "h1");
  run.outcome = store::Outcome::stopped;
  EXPECT_EQ(classify_end(run, nullptr, killed, Absence::none).event, store::RunEvent::ended_on_request);
  run.outcome = store::Outcome::finished;
  EXPECT_EQ(classify_end(run, &silent, killed, Absence::none).event, store::RunEvent::finished);
}

/// mpirun ended with exit code 0, and no record told how training ended.
class ExitCodeZero : public testing::Test {
 protected:
  ExitCodeZero() {
    run_.launcher = "mpirun";
    run_.id = "r_01J0000000000000000000000A";
    run_.attempt = 2;
    std::string name = std::filesystem::temp_directory_path() / "babelring-exit-code-XXXXXX";
    folder_ = mkdtemp(name.data());
    run_.folder = folder_.string();
  }
  ~ExitCodeZero() override { std::filesystem::remove_all(folder_); }
  Ending ending() const { return classify_end(run_, nullptr, status_, Absence::none); }
  void note(std::int64_t attempt, const std::string& end) {
    write_run_file(folder_, {.run = run_.id, .attempt = attempt, .host = "h0", .end = end, .detail = "as noted"});
  }

  std::filesystem::path folder_;
  store::LaunchRow run_;
  ProcessStatus status_{.kind = ProcessStatus::Kind::ended, .exit_code = 0, .detail = ""};
};

TEST_F(ExitCodeZero, AloneIsAFault) {
  EXPECT_EQ(ending().event, store::RunEvent::faulted);
  EXPECT_EQ(ending().cause, "mpirun ended with exit code 0, but rank 0 did not say that training ended");
  note(2, "");
  EXPECT_EQ(ending().event, store::RunEvent::faulted);
}

TEST_F(ExitCodeZero, WithALostHostNamesIt) {
  write_file_atomically(
      launch_log_path(folder_, 2),
      "PRTE has lost communication with a remote daemon.\n  Remote daemon: [prterun-a-1@0,1] on node b\n");
  EXPECT_EQ(ending().event, store::RunEvent::faulted);
  EXPECT_EQ(ending().cause, "mpirun lost b");
  EXPECT_EQ(ending().host, "b");
  note(2, "stopped");
  EXPECT_EQ(ending().cause, "mpirun lost b") << "its SIGTERM made them save, nobody asked for it";
  run_.state = store::RunState::stopping;
  EXPECT_EQ(ending().event, store::RunEvent::ended_on_request);
  run_.state = store::RunState::running;
  note(2, "finished");
  EXPECT_EQ(ending().event, store::RunEvent::finished);
}

TEST_F(ExitCodeZero, CountsWhatRank0NotedOfThisAttempt) {
  note(2, "finished");
  EXPECT_EQ(ending().event, store::RunEvent::finished);
  EXPECT_EQ(ending().cause, "as noted");
  note(2, "stopped");
  EXPECT_EQ(ending().event, store::RunEvent::ended_on_request);
  note(2, "failed");
  EXPECT_EQ(ending().event, store::RunEvent::faulted);
  EXPECT_EQ(ending().cause, "as noted");
  note(1, "finished");
  EXPECT_EQ(ending().event, store::RunEvent::faulted) << "of another attempt";
  write_file_atomically(folder_ / "run.json", "{");
  EXPECT_EQ(ending().event, store::RunEvent::faulted) << "unreadable";
}

TEST(AttemptWatch, AnEndTogetherWithTheServersIsNoFault) {
  store::LaunchRow run;
  run.launcher = "mpirun";
  const ProcessStatus gone{.kind = ProcessStatus::Kind::ended};
  const auto event = [&](Absence absence, const ProcessStatus& status) {
    return classify_end(run, nullptr, status, absence).event;
  };
  using Event = store::RunEvent;
  EXPECT_EQ(event(Absence::none, gone), Event::faulted) << "the last server was killed alone";
  EXPECT_EQ(event(Absence::planned, gone), Event::preempted);
  EXPECT_EQ(event(Absence::world, gone), Event::preempted);
  EXPECT_EQ(event(Absence::world, {.kind = ProcessStatus::Kind::ended, .exit_code = 1}), Event::faulted)
      << "a launcher elsewhere tells how it ended";
  run.outcome = store::Outcome::stopped;
  EXPECT_EQ(event(Absence::planned, gone), Event::preempted) << "nobody asked the run alone to stop";
  EXPECT_EQ(event(Absence::none, gone), Event::ended_on_request);
  run.outcome = store::Outcome::failed;
  run.outcome_detail = "rank 1 does not answer";
  EXPECT_EQ(event(Absence::planned, gone), Event::faulted) << "it failed while the server was away";
  EXPECT_EQ(event(Absence::world, gone), Event::preempted) << "ranks that end one after the other miss each other";
  run.outcome_detail = std::string(diverged_prefix) + " at update 3";
  EXPECT_EQ(event(Absence::world, gone), Event::faulted);
  run.outcome = store::Outcome::finished;
  EXPECT_EQ(event(Absence::world, gone), Event::finished);
  run.outcome = store::Outcome::none;
  run.state = store::RunState::stopping;
  EXPECT_EQ(event(Absence::world, gone), Event::ended_on_request) << "a user asked for it before";
}

}  // namespace
}  // namespace babelring::launch
