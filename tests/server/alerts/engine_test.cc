#include "server/alerts/engine.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

namespace babelring::alerts {
namespace {

using ::testing::HasSubstr;
using namespace std::chrono_literals;

const std::string run_a = "r_01J8ZQ4T5W6X7Y8Z9A0B1C2D3E";

/// An engine, a manual clock, and a run that reports.
class EngineTest : public ::testing::Test {
 protected:
  EngineTest() { engine_.set_rules(default_rules()); }

  /// Reports ten updates per second for `seconds`, judges every 2 s, and returns the changes.
  std::vector<Change> train(double seconds, StepRecord like = usual(), int ranks = 2) {
    std::vector<Change> changes;
    for (int tick = 0; tick < seconds * 10; ++tick) {
      now_ += 100ms;
      like.update = ++update_;
      for (int rank = 0; rank < ranks; ++rank) report(rank, like);
      if (tick % 20 == 19) append(changes);
    }
    return changes;
  }
  /// Judges every 2 s for `time` without any report, and returns the changes.
  std::vector<Change> wait(std::chrono::seconds time) {
    std::vector<Change> changes;
    for (const auto end = now_ + time; now_ < end;) {
      now_ += 2s;
      append(changes);
    }
    return changes;
  }
  /// Judges every 2 s for `time` with heartbeats of both ranks, but no update, and returns the changes.
  std::vector<Change> idle(std::chrono::seconds time) {
    std::vector<Change> changes;
    for (const auto end = now_ + time; now_ < end;) {
      now_ += 2s;
      for (int rank = 0; rank < 2; ++rank) engine_.heard(run_a, 1, rank, "", now_);
      append(changes);
    }
    return changes;
  }
  void report(int rank, const StepRecord& step, std::int64_t attempt = 1) {
    RecordHeader header{.run = run_a, .attempt = attempt, .rank = rank, .host = rank == 0 ? "hostA" : "hostB"};
    header.time_ms = wall_ms_;
    engine_.observe(header, step, now_);
  }
  void append(std::vector<Change>& changes) {
    for (Change& change : engine_.judge(running_, disks_, now_)) changes.push_back(std::move(change));
  }
  static StepRecord usual() {
    StepRecord step;
    step.loss = 4;
    step.times.step = 100;
    step.update_target_tokens = 1000;
    return step;
  }

  Engine engine_;
  Engine::Time now_{};
  std::int64_t wall_ms_ = 1'795'233'600'000;
  std::vector<RunningRun> running_ = {{run_a, 1}};
  std::vector<FreeSpace> disks_ = {{"/data", 1e12}};
  std::int64_t update_ = 0;
};

/// One reporter that makes up runs must not bury the alerts of others.
TEST_F(EngineTest, LimitsTheAlertsOfOneTokensRuns) {
  running_ = {{run_a, 1, 0, "t_other"}};
  for (int i = 0; i < 300; ++i) running_.push_back({"invented " + std::to_string(1000 + i), 1, 0, "t_1"});
  auto changes = wait(600s);
  const auto raised = [&](const std::string& begin) {
    return std::count_if(changes.begin(), changes.end(),
                         [&](const Change& change) { return change.raised && change.run.starts_with(begin); });
  };
  EXPECT_EQ(raised("invented"), static_cast<std::ptrdiff_t>(Engine::max_open));
  EXPECT_EQ(raised(run_a), 1);
  ASSERT_EQ(changes.size(), Engine::max_open + 2);
  const auto summary = std::find_if(changes.begin(), changes.end(), [](const Change& c) { return c.run.empty(); });
  ASSERT_NE(summary, changes.end());
  EXPECT_EQ(summary->subject, "token t_1");
  EXPECT_EQ(summary->kind, Kind::silent);
  EXPECT_EQ(summary->message, "250 further alerts of token t_1 are held back; 50 are open");
  EXPECT_TRUE(wait(600s).empty());
  running_.resize(31);  // the other runs have ended
  changes = wait(600s);
  EXPECT_EQ(std::count_if(changes.begin(), changes.end(), [](const Change& c) { return !c.raised && c.run.empty(); }),
            1);
  EXPECT_EQ(raised(""), 0) << "the first ones are open already";
}

TEST_F(EngineTest, LimitsTheAlertsOfOneRunsRanks) {
  running_ = {{run_a, 1}};
  train(30, usual(), 200);
  std::vector<Change> changes;
  for (int i = 0; i < 300; ++i) {
    for (const Change& change : train(2, usual(), 1)) changes.push_back(change);
  }
  ASSERT_EQ(changes.size(), Engine::max_open + 1);
  EXPECT_EQ(changes.back().subject, "run " + run_a);
  EXPECT_EQ(changes.back().kind, Kind::worker_lost);
}

TEST_F(EngineTest, RaisesNothingForAHealthyRun) {
  EXPECT_TRUE(train(600).empty());
}

TEST_F(EngineTest, AnEmulatedRunNeedsNoLosses) {
  running_[0].emulated = true;
  StepRecord emulated = usual();
  emulated.loss = std::nan("");
  EXPECT_TRUE(train(60, emulated).empty());
}

TEST_F(EngineTest, RaisesOneAlertForASeriesOfNonFiniteUpdates) {
  train(10);
  StepRecord bad = usual();
  bad.loss = std::nan("");
  auto changes = train(10, bad);
  ASSERT_EQ(changes.size(), 1u);
  EXPECT_TRUE(changes[0].raised);
  EXPECT_EQ(changes[0].kind, Kind::nan);
  EXPECT_THAT(changes[0].message, HasSubstr("loss is nan"));
  bad = usual();
  bad.skipped = true;
  EXPECT_TRUE(train(10, bad).empty());
  changes = train(120);  // 60 s after the last bad ones
  ASSERT_EQ(changes.size(), 1u);
  EXPECT_FALSE(changes[0].raised);
}

TEST_F(EngineTest, RaisesAStallOnceAndClearsIt) {
  train(20);
  EXPECT_TRUE(idle(58s).empty());
  auto changes = idle(600s);
  ASSERT_EQ(changes.size(), 1u);
  EXPECT_EQ(changes[0].kind, Kind::stall);
  EXPECT_THAT(changes[0].message, HasSubstr("no update for 60 s (the last was 200)"));
  changes = train(20);
  ASSERT_EQ(changes.size(), 1u);
  EXPECT_FALSE(changes[0].raised);
}

TEST_F(EngineTest, NamesTheLastUpdateThatAnEarlierProcessStored) {
  running_[0].update = 1'000'408;
  const auto changes = idle(70s);
  ASSERT_EQ(changes.size(), 1u);
  EXPECT_EQ(changes[0].kind, Kind::stall);
  EXPECT_THAT(changes[0].message, HasSubstr("no update for 60 s (the last was 1,000,408)"));
}

TEST_F(EngineTest, SaysThatNoUpdateWasReported) {
  const auto changes = idle(70s);
  ASSERT_EQ(changes.size(), 1u);
  EXPECT_THAT(changes[0].message, HasSubstr("(none has been reported yet)"));
}

TEST_F(EngineTest, RaisesANonFiniteEvaluationLoss) {
  train(10);
  RecordHeader header{.run = run_a, .attempt = 1, .rank = 0, .host = "hostA"};
  engine_.observe(header, EvalRecord{.update = update_, .set = "valid", .loss = std::nan("")}, now_);
  auto changes = train(120);  // stays open until the next evaluation
  ASSERT_EQ(changes.size(), 1u);
  EXPECT_EQ(changes[0].kind, Kind::nan);
  EXPECT_EQ(changes[0].message, "the evaluation after update 100 has loss nan");
  engine_.observe(header, EvalRecord{.update = update_, .set = "valid", .loss = 3}, now_);
  changes = train(120);
  ASSERT_EQ(changes.size(), 1u);
  EXPECT_FALSE(changes[0].raised);
}

TEST_F(EngineTest, ComparesTheWeightsOfRanks) {
  StepRecord step = usual();
  step.weights_digest = "aaaaaaaaaaaa";
  EXPECT_TRUE(train(4, step).empty());  // two ranks with the same digest
  // One rank reports later than the other, and each update counts once.
  step.update = update_ += 1000;
  report(0, step);
  step.weights_digest = "bbbbbbbbbbbb";
  std::vector<Change> changes;
  append(changes);
  EXPECT_TRUE(changes.empty()) << "the other rank may report the same digest";
  report(1, step);
  report(1, step);
  append(changes);
  ASSERT_EQ(changes.size(), 1u);
  EXPECT_TRUE(changes[0].raised);
  EXPECT_EQ(changes[0].kind, Kind::ranks_differ);
  EXPECT_EQ(changes[0].message,
            "after update 1,040 the weights of rank 1 on hostB differ from those of rank 0 on hostA (digests bbbbbbbb "
            "and aaaaaaaa)");
  EXPECT_EQ(changes[0].value, 1);
  step.weights_digest = "cccccccccccc";
  EXPECT_TRUE(train(10, step).empty()) << "ranks that differed once stay different";
  // A new attempt, which starts from a checkpoint, is compared afresh.
  running_[0].attempt = 2;
  for (const int rank : {0, 1}) report(rank, step, 2);
  changes.clear();
  append(changes);
  ASSERT_EQ(changes.size(), 1u);
  EXPECT_FALSE(changes[0].raised);
}

TEST_F(EngineTest, AllowsPausesAsLongAsEarlierEvaluations) {
  train(20);
  EXPECT_TRUE(wait(50s).empty());  // the first evaluation
  train(20);
  EXPECT_TRUE(wait(140s).empty());  // less than three times the first one
  train(20);
  EXPECT_FALSE(wait(500s).empty());
}

TEST_F(EngineTest, DistinguishesALostRankFromAStall) {
  train(20);
  auto changes = train(60, usual(), 1);
  ASSERT_EQ(changes.size(), 1u);
  EXPECT_EQ(changes[0].kind, Kind::worker_lost);
  EXPECT_EQ(changes[0].subject, "rank 1");
  EXPECT_THAT(changes[0].message,
              HasSubstr("rank 1 on hostB: no record or heartbeat for 30 s while other ranks report"));
  changes = train(20);
  ASSERT_EQ(changes.size(), 1u);
  EXPECT_FALSE(changes[0].raised);
}

TEST_F(EngineTest, RaisesALastingDropInThroughput) {
  train(60);
  StepRecord slow = usual();
  slow.times.step = 300;
  EXPECT_TRUE(train(40, slow).empty());  // shorter than hold_s
  EXPECT_TRUE(train(60).empty());
  auto changes = train(300, slow);
  ASSERT_EQ(changes.size(), 1u);
  EXPECT_EQ(changes[0].kind, Kind::throughput_drop);
  EXPECT_THAT(changes[0].message, HasSubstr("3,333 target tokens/s, usually 9"));
  // Between the limits for raising and clearing nothing changes.
  slow.times.step = 150;
  EXPECT_TRUE(train(120, slow).empty());
  changes = train(60);
  ASSERT_EQ(changes.size(), 1u);
  EXPECT_FALSE(changes[0].raised);
}

TEST_F(EngineTest, RaisesALossSpike) {
  StepRecord step = usual();
  for (int i = 0; i < 60; ++i) {
    step.loss *= 0.99;
    EXPECT_TRUE(train(1, step).empty());
  }
  StepRecord high = step;
  high.loss = 8;
  auto changes = train(60, high);
  ASSERT_EQ(changes.size(), 1u);
  EXPECT_EQ(changes[0].kind, Kind::loss_spike);
  changes = train(60, step);
  ASSERT_EQ(changes.size(), 1u);
  EXPECT_FALSE(changes[0].raised);
}

TEST_F(EngineTest, LearnsUsualValuesFromFiniteUpdatesOnly) {
  StepRecord bad = usual();
  bad.loss = std::nan("");
  bad.update_target_tokens = 0;
  train(1, bad);
  std::vector<Change> changes;
  for (const Change& change : train(120)) {
    if (change.rule != "nan") changes.push_back(change);
  }
  EXPECT_TRUE(changes.empty()) << changes[0].message;
  StepRecord worse = usual();
  worse.loss = 8;
  changes = train(60, worse);
  ASSERT_EQ(changes.size(), 1u);
  EXPECT_EQ(changes[0].rule, "loss-spike");
}

TEST_F(EngineTest, RaisesAndClearsLowDiskSpaceAtDifferentLimits) {
  disks_[0].bytes = 1e9;
  auto changes = wait(4s);
  ASSERT_GE(changes.size(), 1u);
  EXPECT_EQ(changes[0].kind, Kind::disk_low);
  EXPECT_EQ(changes[0].subject, "/data");
  EXPECT_EQ(changes[0].run, "");
  running_.clear();
  disks_[0].bytes = 1.2e9;
  EXPECT_TRUE(wait(60s).empty());
  disks_[0].bytes = 2e9;
  changes = wait(60s);
  ASSERT_EQ(changes.size(), 1u);
  EXPECT_FALSE(changes[0].raised);
}

TEST_F(EngineTest, ClearsTheAlertOfAFolderNoLongerInUse) {
  disks_.push_back({"/data/run/checkpoints", 1e6});
  auto changes = wait(4s);
  ASSERT_EQ(changes.size(), 1u);
  EXPECT_EQ(changes[0].subject, "/data/run/checkpoints");
  disks_.pop_back();
  changes = wait(2s);
  ASSERT_EQ(changes.size(), 1u);
  EXPECT_FALSE(changes[0].raised);
  EXPECT_EQ(changes[0].message, "no run writes there any more");
}

TEST_F(EngineTest, ClearsTheAlertsOfAnEndedRun) {
  train(20);
  ASSERT_EQ(wait(70s).size(), 1u);
  running_.clear();
  const auto changes = wait(2s);
  ASSERT_EQ(changes.size(), 1u);
  EXPECT_FALSE(changes[0].raised);
  EXPECT_EQ(changes[0].message, "the run is no longer running");
}

TEST_F(EngineTest, ClearsTheAlertsOfADisabledRule) {
  train(20);
  ASSERT_EQ(wait(70s).size(), 1u);
  auto rules = default_rules();
  for (Rule& rule : rules) rule.enabled = false;
  engine_.set_rules(rules);
  const auto changes = wait(2s);
  ASSERT_EQ(changes.size(), 1u);
  EXPECT_FALSE(changes[0].raised);
  EXPECT_TRUE(wait(60s).empty());
}

TEST_F(EngineTest, ClearsAnAlertOfAnEarlierProcess) {
  engine_.adopt("stall", run_a, "");
  train(20);
  const auto changes = wait(70s);  // the updates clear it, the silence raises a new one
  ASSERT_EQ(changes.size(), 1u);
  EXPECT_TRUE(changes[0].raised);
}

TEST_F(EngineTest, DoesNotRaiseAnAlertOfAnEarlierProcessAgain) {
  engine_.adopt("stall", run_a, "");
  EXPECT_TRUE(idle(300s).empty());
}

TEST_F(EngineTest, CallsARunWithoutAnySignOfLifeSilentAndNotStalled) {
  train(20);
  idle(2s);
  auto changes = wait(600s);
  ASSERT_EQ(changes.size(), 1u);
  EXPECT_EQ(changes[0].kind, Kind::silent);
  EXPECT_EQ(changes[0].message, "no record or heartbeat for 60 s (the last update was 200)");
  changes = train(20);
  ASSERT_EQ(changes.size(), 1u) << "the next record ends it";
  EXPECT_FALSE(changes[0].raised);
  auto rules = default_rules();
  std::erase_if(rules, [](const Rule& rule) { return rule.kind == Kind::silent; });
  engine_.set_rules(rules);
  changes = wait(1000s);  // more than three times the longest wait
  ASSERT_EQ(changes.size(), 1u) << "no other rule tells of it";
  EXPECT_EQ(changes[0].kind, Kind::stall);
}

TEST_F(EngineTest, ASilentRunOfAnEarlierProcessStaysSilent) {
  engine_.adopt("silent", run_a, "");
  EXPECT_TRUE(wait(300s).empty()) << "neither raised again nor cleared";
  running_.clear();
  const auto changes = wait(2s);
  ASSERT_EQ(changes.size(), 1u);
  EXPECT_EQ(changes[0].message, "the run is no longer running");
}

TEST_F(EngineTest, IgnoresTheWallClock) {
  for (const std::int64_t jump : {3'600'000LL, -3'600'000LL, 30 * 86'400'000LL, -60 * 86'400'000LL}) {
    wall_ms_ += jump;
    EXPECT_TRUE(train(20).empty());
  }
}

TEST_F(EngineTest, IgnoresLateRecordsOfAnOlderAttempt) {
  report(0, usual(), 2);
  StepRecord bad = usual();
  bad.update = 1000;
  bad.loss = std::nan("");
  report(0, bad, 1);
  running_[0].attempt = 2;
  EXPECT_TRUE(wait(10s).empty());
}

TEST_F(EngineTest, AppliesARuleToItsRunOnly) {
  auto rules = default_rules();
  for (Rule& rule : rules) rule.run = "r_01J8ZQ4T5W6X7Y8Z9A0B1C2D3F";
  engine_.set_rules(rules);
  train(20);
  EXPECT_TRUE(wait(300s).empty());
}

TEST(Rules, AreCheckedAgainstTheirBounds) {
  for (const Rule& rule : default_rules()) EXPECT_TRUE(check_rule(rule).ok()) << rule.name;
  Rule rule = default_rules()[2];
  rule.threshold = 1.5;
  EXPECT_EQ(check_rule(rule).error(), "threshold: expected 0.01 to 0.99 for throughput_drop, found 1.5");
  rule.threshold = 0.5;
  rule.name = "Drop!";
  EXPECT_THAT(check_rule(rule).error(), HasSubstr("found 'Drop!'"));
  rule.name = "drop";
  rule.hold_s = -1;
  EXPECT_THAT(check_rule(rule).error(), HasSubstr("hold_s: expected 0 to"));
  EXPECT_EQ(check_rule({.name = "f", .kind = Kind::failed, .hold_s = 5}).error(),
            "hold_s: expected 0 for failed, which is an event, found 5");
  EXPECT_EQ(check_rule({.name = "f", .kind = Kind::restarted, .threshold = 0}).error(),
            "threshold: expected 1 to 100 for restarted, found 0");
}

TEST_F(EngineTest, ARewoundRunDoesNotStall) {
  EXPECT_TRUE(train(60).empty());
  const auto rewound = [&](int rank) {
    const RecordHeader header{.run = run_a, .attempt = 1, .rank = rank, .host = "hostA"};
    engine_.observe(header, LifecycleRecord{.event = "rewound", .update = 100}, now_);
  };
  StepRecord outdated = usual();
  outdated.update = update_;
  rewound(0);
  report(1, outdated);  // from a rank that reports its rewind later
  rewound(1);
  update_ = 100;
  EXPECT_TRUE(train(40).empty());
  const auto changes = idle(600s);
  ASSERT_FALSE(changes.empty());
  EXPECT_THAT(changes[0].message, HasSubstr("(the last was 500)"));
}

/// Events of one run, which no longer runs.
class EngineEventsTest : public EngineTest {
 protected:
  EngineEventsTest() {
    running_.clear();
    events_.runs[run_a] = {.attempt = 1};
  }
  /// Judges with these events for the first time and with the state of the runs for `time`.
  std::vector<Change> judge(std::vector<RunEvent> happened, std::chrono::seconds time = 2s) {
    std::vector<Change> changes;
    events_.happened = std::move(happened);
    for (const auto end = now_ + time; now_ < end;) {
      now_ += 2s;
      for (Change& change : engine_.judge(running_, disks_, now_, events_)) changes.push_back(std::move(change));
      events_.happened.clear();
    }
    return changes;
  }
  static RunEvent event(Kind kind, std::int64_t attempt, double value = 100) {
    return {.kind = kind, .run = run_a, .attempt = attempt, .message = "rank 1 was killed", .value = value};
  }
  RunEvents events_;
};

TEST_F(EngineEventsTest, EachRestartRaisesAnAlertUntilTheRunHasTrainedAgain) {
  auto changes = judge({event(Kind::restarted, 1, 1)}, 600s);
  ASSERT_EQ(changes.size(), 1u) << "the next attempt has not trained yet";
  EXPECT_TRUE(changes[0].raised);
  EXPECT_EQ(changes[0].kind, Kind::restarted);
  EXPECT_EQ(changes[0].subject, "attempt 1");
  EXPECT_EQ(changes[0].message, "rank 1 was killed");
  events_.runs[run_a] = {.attempt = 2, .trains = true};
  EXPECT_TRUE(judge({}, 100s).empty());
  changes = judge({event(Kind::restarted, 2, 2)});
  ASSERT_EQ(changes.size(), 1u) << "another event";
  EXPECT_EQ(changes[0].subject, "attempt 2");
  changes = judge({}, 600s);
  ASSERT_EQ(changes.size(), 1u);
  EXPECT_FALSE(changes[0].raised);
  EXPECT_EQ(changes[0].subject, "attempt 1");
  events_.runs[run_a] = {.attempt = 2, .trains = true, .ended = true};
  changes = judge({}, 600s);
  ASSERT_EQ(changes.size(), 1u);
  EXPECT_EQ(changes[0].subject, "attempt 2") << "the end of the run ends it";
}

TEST_F(EngineEventsTest, AFailureLastsUntilTheRunIsStartedAgainOrHidden) {
  events_.runs[run_a].failed = events_.runs[run_a].ended = true;
  EXPECT_EQ(judge({event(Kind::failed, 1)}, 600s).size(), 1u);
  events_.runs[run_a] = {.attempt = 2};
  auto changes = judge({});
  ASSERT_EQ(changes.size(), 1u);
  EXPECT_FALSE(changes[0].raised);
  events_.runs[run_a] = {.attempt = 2, .failed = true, .ended = true};
  EXPECT_EQ(judge({event(Kind::failed, 2)}).size(), 1u);
  events_.runs[run_a].hidden = true;
  changes = judge({});
  ASSERT_EQ(changes.size(), 1u);
  EXPECT_EQ(changes[0].message, "the run is archived or deleted");
}

TEST_F(EngineEventsTest, AnEndIsNewsForADayIfTheRuleIsOn) {
  events_.runs[run_a].ended = true;
  EXPECT_TRUE(judge({event(Kind::finished, 1)}).empty()) << "off by default";
  auto rules = default_rules();
  rules.back().enabled = true;
  engine_.set_rules(rules);
  EXPECT_EQ(judge({event(Kind::finished, 1)}, 86'000s).size(), 1u);
  EXPECT_EQ(judge({}, 500s).size(), 1u);
}

TEST_F(EngineEventsTest, ThresholdsLeaveOutEarlyEvents) {
  engine_.set_rules({{.name = "often", .kind = Kind::restarted, .threshold = 3},
                     {.name = "late", .kind = Kind::failed, .threshold = 100}});
  EXPECT_TRUE(judge({event(Kind::restarted, 1, 2), event(Kind::failed, 2, 99)}).empty());
  events_.runs[run_a].failed = true;
  EXPECT_EQ(judge({event(Kind::restarted, 3, 3), event(Kind::failed, 4, 100)}).size(), 2u);
}

TEST_F(EngineEventsTest, AnAlertOfAnEarlierProcessIsNeitherRaisedAgainNorLost) {
  engine_.adopt("failed", run_a, "attempt 3");
  EXPECT_EQ(engine_.runs_with_events(), std::set<std::string>{run_a});
  events_.runs[run_a] = {.attempt = 3, .failed = true, .ended = true};
  EXPECT_TRUE(judge({}, 600s).empty());
  events_.runs[run_a] = {.attempt = 4};
  const auto changes = judge({});
  ASSERT_EQ(changes.size(), 1u);
  EXPECT_EQ(changes[0].subject, "attempt 3");
  EXPECT_TRUE(engine_.runs_with_events().empty());
}

TEST_F(EngineEventsTest, LimitsTheAlertsOfOneToken) {
  std::vector<RunEvent> happened;
  for (int i = 0; i < 60; ++i) {
    const std::string id = "invented " + std::to_string(1000 + i);
    events_.runs[id] = {.begun_by = "t_1", .attempt = 1, .failed = true, .ended = true};
    happened.push_back({.kind = Kind::failed, .run = id, .begun_by = "t_1", .attempt = 1});
  }
  auto changes = judge(happened, 600s);
  ASSERT_EQ(changes.size(), Engine::max_open + 1);
  EXPECT_EQ(changes.back().message, "10 further alerts of token t_1 are held back; 50 are open");
  for (auto& [id, run] : events_.runs) run.failed = false;
  changes = judge({}, 600s);
  EXPECT_EQ(changes.size(), Engine::max_open + 1) << "all are cleared, the number of those held back, too";
}

}  // namespace
}  // namespace babelring::alerts
