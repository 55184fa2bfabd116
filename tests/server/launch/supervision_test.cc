#include <atomic>
#include <latch>

#include "base/names.h"
#include "base/records/run_marks.h"
#include "server/http/lanes.h"
#include "tests/server/launch/supervisor_fixture.h"
#include "tests/soon.h"

namespace babelring::launch {
namespace {

using namespace std::chrono_literals;

/// Supervisor reactions to silent ranks, runs of earlier servers, and runs started by users.
class SupervisionTest : public SupervisorFixture {
 protected:
  std::atomic<SteadyClock::time_point> clock_ = SteadyClock::time_point();
};

TEST_F(SupervisionTest, NamesASilentRankFencesItAndRestarts) {
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
  EXPECT_TRUE(row(run).detail.starts_with("rank 1 on h1 sent no heartbeat for 1")) << row(run).detail;
  EXPECT_EQ(fake_->killed.size(), 1U);
  EXPECT_EQ(fenced_attempt(folder_ / run), 1);
  auto reader = store_->reader();
  EXPECT_TRUE(store::find_commands(reader->database, run, 1)->fenced);
}

TEST_F(SupervisionTest, KeepsTheLastMinuteOfEachAttemptAndOfTheNewestTwenty) {
  const std::string run = started();
  for (int i = 0; i < 30 && state(run) == "running"; ++i) {
    beat(run, 0);
    pass();
  }
  ASSERT_EQ(state(run), "restarting");
  const auto boxes = [&] {
    auto reader = store_->reader();
    return store::list_black_boxes(*reader, row(run).number);
  };
  ASSERT_EQ(boxes().size(), 1U);
  EXPECT_EQ(boxes()[0].attempt, 1);
  const json::value box = parse_json(boxes()[0].content).value();
  EXPECT_GE(box.at("ranks").at(0).at("seconds").as_array().size(), 9U);
  EXPECT_LE(box.at("ranks").at(1).at("seconds").as_array().back().to_number<double>(), -9) << "it fell silent";
  EXPECT_FALSE(beats_.black_box(run, 1)) << "the next attempt begins with none";
  store_->write([&](store::Database& database) {
    for (std::int64_t attempt = 2; attempt <= 30; ++attempt) store::put_black_box(database, run, {attempt, 1, "{}"});
    store::put_black_box(database, run, {30, 2, "{}"});
    store::put_black_box(database, "r_unknown", {1, 1, "{}"});
  });
  EXPECT_EQ(boxes().size(), static_cast<std::size_t>(store::max_black_boxes));
  EXPECT_EQ(boxes().front().until_ms, 2);
  EXPECT_EQ(boxes().back().attempt, 11);
}

TEST_F(SupervisionTest, ShortSilenceAndSilenceOfAllAreEndured) {
  const std::string run = started();
  pass(9);
  beat(run, 0);
  beat(run, 1);
  pass(30);  // of all: it may be the network between them and us
  EXPECT_EQ(state(run), "running");
  pass(15);
  EXPECT_NE(state(run), "running");
}

TEST_F(SupervisionTest, ANapOfTheServerIsNoSilenceOfTheRanks) {
  const std::string run = started();
  now_ += 1h;
  supervisor_->tick();
  pass(5);
  EXPECT_EQ(state(run), "running");
}

TEST_F(SupervisionTest, AnyStallOfTheServerIsNoSilenceOfTheRanks) {
  const std::string run = started();
  for (int i = 0; i < 30; ++i) {  // each far too short for a time-out
    now_ += 2s;
    supervisor_->tick();
  }
  EXPECT_EQ(state(run), "running");
}

TEST_F(SupervisionTest, HeartbeatsThatWaitToBeHandledAreNoSilence) {
  http::LaneTable table = http::default_lanes();
  http::Lanes lanes(table, [this] { return clock_.load(); });
  handled_until_ = [&](const std::string& run) { return lanes.handled_until(http::Lane::heartbeat, run); };
  const auto turn = [&](int seconds) {
    for (int i = 0; i < seconds; ++i) {
      pass();
      clock_ = now_;
    }
  };
  clock_ = now_;
  const std::string run = started(), other = started();
  std::latch held(1), begun(1);
  const auto send = [&](std::int64_t rank, bool hold) {
    http::Work work{.owner = "t", .subject = run, .arrived = now_, .run = nullptr, .drop = nullptr};
    const auto arrived = now_;
    work.run = [&, rank, hold, arrived] {
      if (hold) begun.count_down(), held.wait();
      beats_.record(run, {.attempt = 1, .rank = rank, .pid = 5, .host = "h", .arrived = arrived});
    };
    lanes.submit(http::Lane::heartbeat, std::move(work));
  };
  clock_ = now_;
  send(0, true);
  send(1, false);
  begun.wait();
  turn(300);
  EXPECT_EQ(state(run), "running") << "its heartbeats stand behind one that takes long: " << row(run).detail;
  EXPECT_NE(state(other), "running") << "of which none came";
  held.count_down();
  EXPECT_TRUE(soon([&] { return lanes.handled_until(http::Lane::heartbeat, run) == clock_.load(); }));
  turn(100);
  EXPECT_NE(state(run), "running") << "now its silence is its own";
}

TEST_F(SupervisionTest, NoticesThatNoUpdateComesAndThatARankNeverCame) {
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

TEST_F(SupervisionTest, FindsItsRunsAgain) {
  const std::string run = started();
  start();  // another server
  pass(3);
  EXPECT_EQ(state(run), "running");
  fake_->statuses[fake_->last()] = {.kind =
                                        ProcessStatus::Kind::ended};  // of somebody else's child there is no exit code
  pass();
  EXPECT_EQ(state(run), "restarting");
  pass();
  start();
  pass();
  fake_->statuses[fake_->last()] = {.kind = ProcessStatus::Kind::ended};
  pass();
  EXPECT_EQ(state(run), "lost") << "no restart is left, and how it ended nobody knows";
}

TEST_F(SupervisionTest, ALaunchThatTheLastServerDidNotNoteIsLookedFor) {
  const std::string run = submit();
  pass();
  store_->write([&](store::Database& database) { store::record_launcher(database, 1, 1, {}); });
  fake_->found = store::LauncherHandle{.pid = 1001, .start_ticks = 7, .job = ""};
  start();
  pass();
  EXPECT_EQ(state(run), "launching");
  say(run, "finished");
  fake_->end(0);
  pass();
  EXPECT_EQ(state(run), "succeeded");
}

TEST_F(SupervisionTest, CallsAnAttemptLostUntilItReports) {
  const std::string run = started();
  fake_->statuses[fake_->last()] = {.kind = ProcessStatus::Kind::unknown, .detail = "squeue: no controller"};
  pass(90);
  EXPECT_EQ(state(run), "lost");
  EXPECT_EQ(row(run).detail, "squeue: no controller");
  now_ += 1s;
  EXPECT_EQ(supervisor_->tick(), 2s) << "only a heartbeat can change it";
  beat(run, 0);
  pass();
  EXPECT_EQ(state(run), "running");
}

TEST_F(SupervisionTest, RecordsTellTooThatAnAttemptRunsButBeginNone) {
  const std::string run = submit();
  pass();
  say(run, "rank_up");
  EXPECT_EQ(state(run), "running");
  say(run, "rank_up", 2);
  EXPECT_EQ(row(run).attempt, 1);
  say(run, "finished", 2);
  EXPECT_EQ(state(run), "running");
  EXPECT_EQ(store::active_launches(*store_->reader()).size(), 1u);
}

/// Older releases let anybody begin an attempt of a run that the server had started.
TEST_F(SupervisionTest, AnAttemptThatWasStartedByHandInTheDaysOfAnOlderReleaseEndsByItself) {
  const std::string run = submit();
  pass();
  store_->write([&](store::Database& database) { store::record_newer_attempt(database, run, 2, "h0", 1); });
  EXPECT_EQ(row(run).attempt, 2);
  EXPECT_EQ(state(run), "running");
  auto reader = store_->reader();
  EXPECT_TRUE(store::find_commands(reader->database, run, 1)->fenced);
  EXPECT_TRUE(store::active_launches(*reader).empty()) << "it is somebody else's now";
  say(run, "finished", 2);
  EXPECT_EQ(state(run), "succeeded");
  store_->write([&](store::Database& database) { store::request_resume(database, {.run = run, .actor = "me"}, 9); });
  pass();
  EXPECT_EQ(state(run), "launching") << "asked to go on, it is the server's again";
  EXPECT_EQ(fake_->orders.back().attempt, 3);
}

TEST_F(SupervisionTest, ARunStartedByHandThatIsSilentWhenItShallStopIsLostUntilItReports) {
  const std::string run = make_id('r');
  say(run, "rank_up");
  beat(run, 0);
  stop(run, store::StopMode::checkpoint, 300);
  ASSERT_EQ(state(run), "stopping");
  pass(59);
  EXPECT_EQ(state(run), "stopping");
  pass(3);
  EXPECT_EQ(state(run), "lost");
  EXPECT_EQ(row(run).detail, "asked to stop, and no rank reports any more");
  EXPECT_GE(changes_, 1);
  now_ += 1s;
  EXPECT_EQ(supervisor_->tick(), 2s);
  beat(run, 0);
  pass();
  EXPECT_EQ(state(run), "stopping") << "the request still stands";
  auto reader = store_->reader();
  EXPECT_EQ(store::find_commands(reader->database, run, 1)->stop_mode, store::StopMode::checkpoint);
  say(run, "stopped");
  EXPECT_EQ(state(run), "stopped");
  now_ += 1s;
  EXPECT_EQ(supervisor_->tick(), 30s);
}

TEST_F(SupervisionTest, ARunStartedByHandThatDoesNotStopWithinTheGraceIsFenced) {
  const std::string run = make_id('r');
  say(run, "rank_up");
  stop(run, store::StopMode::checkpoint, 5);
  for (int i = 0; i < 5; ++i) {
    beat(run, 0);
    pass();
  }
  EXPECT_EQ(state(run), "stopping");
  beat(run, 0);
  pass(2);
  EXPECT_EQ(state(run), "stopped");
  EXPECT_EQ(row(run).detail, "did not stop within 5 s");
  auto reader = store_->reader();
  EXPECT_TRUE(store::find_commands(reader->database, run, 1)->fenced);
}

}  // namespace
}  // namespace babelring::launch
