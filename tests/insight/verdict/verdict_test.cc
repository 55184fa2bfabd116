#include "insight/verdict/verdict.h"

#include <gmock/gmock.h>

#include <cmath>

#include "insight/steps.h"
#include "tests/insight/verdict/stream.h"

namespace babelring::verdict {
namespace {

using testing::every;
using testing::expect_whole;
using ::testing::HasSubstr;
using testing::RankTimes;
using ::testing::StartsWith;
using testing::Stream;
using testing::value_of;

TEST(Verdict, NamesALateRankThatLooksLikeASlowNetworkToTheOthers) {
  Stream run;
  run.ranks = {RankTimes{}, RankTimes{}, RankTimes{.host = "hostB"}, RankTimes{.host = "hostB"}};
  run.ranks[3].forward_ms = 200;
  run.ranks[3].backward_ms = 400;
  const Input input = run.input();
  // Rank 0 by itself would blame the network.
  EXPECT_GT(input.ranks[0].steps.back().times.exposed_communication, 250);
  const Verdict verdict = judge(input);
  EXPECT_EQ(verdict.kind, Kind::straggler_bound);
  EXPECT_THAT(verdict.sentence, HasSubstr("the other ranks wait for rank 3 on hostB"));
  EXPECT_THAT(verdict.advice, HasSubstr("check rank 3 on hostB"));
  EXPECT_NEAR(value_of(verdict, "straggler_wait_ms"), 300, 15);
  EXPECT_NEAR(value_of(verdict, "network_wait_ms"), 10, 1);
  EXPECT_GT(verdict.confidence, 0.9);
  expect_whole(verdict);
}

TEST(Verdict, SaysWhenALateRankWaitsForItsData) {
  Stream run;
  run.ranks = {RankTimes{}, RankTimes{.host = "hostB", .data_ms = 250}};
  const Verdict verdict = judge(run.input());
  EXPECT_EQ(verdict.kind, Kind::straggler_bound);
  EXPECT_THAT(verdict.sentence, HasSubstr("rank 1 on hostB"));
  EXPECT_THAT(verdict.sentence, HasSubstr("its batches arrive late"));
}

TEST(Verdict, BlamesNoSingleRankIfAllAreLateInTurns) {
  Stream run;
  run.ranks = {RankTimes{}, RankTimes{}, RankTimes{}, RankTimes{}};
  run.jitter = 0.5;
  const Verdict verdict = judge(run.input());
  EXPECT_EQ(verdict.kind, Kind::straggler_bound);
  EXPECT_THAT(verdict.sentence, HasSubstr("in turns"));
}

TEST(Verdict, NamesData) {
  Stream run;
  run.ranks = {RankTimes{.data_ms = 180}, RankTimes{.data_ms = 180}};
  const Verdict verdict = judge(run.input());
  EXPECT_EQ(verdict.kind, Kind::data_bound);
  EXPECT_THAT(verdict.sentence, StartsWith("data-bound: 35 % of each step waits for its batch (180 of 51"));
  EXPECT_THAT(verdict.advice, HasSubstr("data.prefetch"));
}

TEST(Verdict, SpreadsEvaluationsOverTheUpdatesBetweenThem) {
  Stream run;
  run.ranks = {RankTimes{}};
  run.updates = 400;
  run.pauses = every(Pause::Kind::evaluation, 50, 350, 10);
  const Verdict verdict = judge(run.input());
  EXPECT_EQ(verdict.kind, Kind::evaluation_bound);  // 10 s in 50 updates of 0.322 s
  EXPECT_THAT(verdict.sentence,
              StartsWith("evaluation-bound: 38 % of the time goes into evaluations (10.0 s each, every 50"));
  EXPECT_NEAR(value_of(verdict, "evaluation_ms"), 200, 1);
  EXPECT_GT(verdict.confidence, 0.8);
  expect_whole(verdict);
}

TEST(Verdict, OneSilentRankOfHundredsDoesNotHoldItBack) {
  Stream run;
  run.ranks.assign(200, RankTimes{});
  run.ranks[199].backward_ms *= 3;
  run.updates = 60;
  Input input = run.input();
  for (const std::size_t silent : {7U, 8U}) input.ranks[silent].steps.clear();
  const Verdict verdict = judge(input);
  EXPECT_EQ(verdict.kind, Kind::straggler_bound);
  EXPECT_EQ(value_of(verdict, "last_rank"), 199);
  input.ranks[9].steps.clear();
  EXPECT_EQ(judge(input).kind, Kind::unknown) << "less than 99 %";
}

TEST(Verdict, CountsCheckpointsOnlyIfTrainingStoodStill) {
  Stream run;
  run.ranks = {RankTimes{}, RankTimes{}};
  run.updates = 200;
  run.pauses = every(Pause::Kind::checkpoint, 20, 180, 4);
  EXPECT_EQ(judge(run.input()).kind, Kind::checkpoint_bound);
  for (Pause& pause : run.pauses) pause.gap_ms = 2;  // written while training continued
  EXPECT_EQ(judge(run.input()).kind, Kind::healthy);
}

TEST(Verdict, IsHealthyIfNearlyAllTimeIsCompute) {
  Stream run;
  run.ranks = {RankTimes{}, RankTimes{}};
  const Verdict verdict = judge(run.input());
  EXPECT_EQ(verdict.kind, Kind::healthy);
  EXPECT_THAT(verdict.sentence, StartsWith("healthy: 9"));
  EXPECT_EQ(verdict.advice, "nothing to do");
  EXPECT_GT(verdict.confidence, 0.6);
}

TEST(Verdict, SaysWhyAComputeBoundRunIsNotHealthy) {
  Stream run;
  run.ranks = {RankTimes{.busy_fraction = 0.4}};
  Verdict verdict = judge(run.input());
  EXPECT_EQ(verdict.kind, Kind::compute_bound);
  EXPECT_THAT(verdict.sentence, HasSubstr("busy only 40 %"));
  run.ranks = {RankTimes{.forward_ms = 20, .backward_ms = 40, .optimizer_ms = 60}};
  verdict = judge(run.input());
  EXPECT_EQ(verdict.kind, Kind::compute_bound);
  EXPECT_THAT(verdict.advice, HasSubstr("would save about 30 ms"));
  run.ranks = {RankTimes{.data_ms = 45}, RankTimes{.data_ms = 45}};
  run.network_ms = 45;
  verdict = judge(run.input());
  EXPECT_EQ(verdict.kind, Kind::compute_bound);
  EXPECT_THAT(verdict.sentence, HasSubstr("waiting takes 11 % for data"));
}

TEST(Verdict, NamesASlowHostWithSeveralRanks) {
  Stream run;
  const RankTimes fast, slow = {.host = "hostB", .forward_ms = 300, .backward_ms = 600};
  run.ranks = {fast, fast, slow, slow};
  run.updates = 60;
  Verdict verdict = judge(run.input());
  EXPECT_EQ(verdict.kind, Kind::straggler_bound);
  EXPECT_THAT(verdict.sentence, HasSubstr("the other ranks wait for hostB for "));
  EXPECT_THAT(verdict.sentence, HasSubstr("its 2 ranks are last in 45 of 45 updates"));
  EXPECT_THAT(verdict.advice, StartsWith("check hostB for other programs"));
  EXPECT_EQ(value_of(verdict, "last_host_updates"), 1);
  // If one rank of a host is slow, the rank is named instead of the host.
  run.ranks = {fast, fast, fast, slow};
  run.ranks[2].host = "hostB";
  verdict = judge(run.input());
  EXPECT_THAT(verdict.sentence, HasSubstr("wait for rank 3 on hostB"));
  // No host is blamed if hosts are late in turns.
  run.ranks = {fast, fast, fast, fast};
  run.ranks[2].host = run.ranks[3].host = "hostB";
  run.jitter = 0.5;
  verdict = judge(run.input());
  EXPECT_THAT(verdict.sentence, HasSubstr("in turns"));
}

TEST(Verdict, BlamesOtherProgramsIfTheyTakeTheProcessors) {
  Stream run;
  run.ranks = {RankTimes{.busy_fraction = 0.23}};
  Input input = run.input();
  input.hosts = {{.host = "vm", .load = 12.7, .processors = 2, .own_threads = 2}};
  Verdict verdict = judge(input);
  EXPECT_EQ(verdict.kind, Kind::host_contended);
  EXPECT_EQ(verdict.level, Level::warning);
  EXPECT_THAT(verdict.sentence, HasSubstr("load 12.7 on 2 processors: other programs take most of them"));
  EXPECT_THAT(verdict.sentence, HasSubstr("busy only 23 %"));
  EXPECT_THAT(verdict.advice, HasSubstr("stop other programs on vm"));
  EXPECT_EQ(health_part(verdict).topic, Topic::hosts);
  // The run's own threads do not count as other programs.
  input.hosts[0].own_threads = 12;
  EXPECT_EQ(judge(input).kind, Kind::compute_bound);
  EXPECT_EQ(judge(input).level, Level::warning) << "good only if threads are busy";
  // Busy threads get enough processor time, whatever the load.
  run.ranks = {RankTimes{.busy_fraction = 0.9}};
  input = run.input();
  input.hosts = {{.host = "vm", .load = 12.7, .processors = 2, .own_threads = 2}};
  verdict = judge(input);
  EXPECT_EQ(verdict.kind, Kind::healthy);
  EXPECT_EQ(verdict.level, Level::good);
}

TEST(Verdict, IsNotHealthyIfUpdatesAreSkipped) {
  Stream run;
  run.ranks = {RankTimes{}, RankTimes{}};
  Input input = run.input();
  for (RankSteps& rank : input.ranks) {
    for (std::size_t i = 60; i < rank.steps.size(); ++i) rank.steps[i].skipped = true;
  }
  const Verdict verdict = judge(input);
  EXPECT_NE(verdict.kind, Kind::healthy);
  EXPECT_EQ(verdict.level, Level::warning);
  EXPECT_THAT(verdict.sentence, StartsWith("40 of 80 updates were skipped"));
}

TEST(Verdict, SaysWhatIsMissing) {
  EXPECT_EQ(judge({}).sentence, "unknown: no update has been reported yet");
  EXPECT_EQ(judge({.facts = {.attempt = 2}}).sentence, "unknown: attempt 2 has not reported an update");
  Stream run;
  run.ranks = {RankTimes{}, RankTimes{}};
  run.updates = 7;
  run.facts.attempt = 3;
  Verdict verdict = judge(run.input());
  EXPECT_EQ(verdict.kind, Kind::unknown);
  EXPECT_EQ(verdict.sentence, "unknown: all ranks have reported 4 updates of attempt 3 after warm-up; 8 are needed");
  run.updates = 100;
  run.facts.world_size = 8;
  EXPECT_EQ(judge(run.input()).sentence, "unknown: 2 of 8 ranks have reported");
  run.facts.world_size = 2;
  run.ranks = {RankTimes{.forward_ms = 0, .backward_ms = 0}};
  EXPECT_THAT(judge(run.input()).sentence, HasSubstr("step records have no phase times"));
}

TEST(Verdict, IsLessConfidentWithFewerRanksOrUpdates) {
  Stream run;
  run.ranks = {RankTimes{}, RankTimes{}, RankTimes{}};
  run.network_ms = 400;
  const double all = judge(run.input()).confidence;
  run.facts.world_size = 4;
  const double some = judge(run.input()).confidence;
  run.facts.world_size = 3;
  run.updates = 14;
  const double few = judge(run.input()).confidence;
  EXPECT_LT(some, 0.8 * all);
  EXPECT_LT(few, 0.7 * all);
}

TEST(Verdict, LeavesOutTheFirstUpdatesOfAnAttempt) {
  Stream run;
  run.ranks = {RankTimes{}, RankTimes{}};
  run.first_update = 501;  // resumed
  Input input = run.input();
  for (RankSteps& rank : input.ranks) {
    for (std::size_t i = 0; i < 15; ++i) {
      rank.steps[i].times.data += 5000;
      rank.steps[i].times.step += 5000;
    }
  }
  const Verdict verdict = judge(input);
  EXPECT_EQ(verdict.kind, Kind::healthy);
  EXPECT_EQ(verdict.first_update, 521);
  EXPECT_EQ(verdict.last_update, 600);
}

TEST(Verdict, SurvivesAClockThatJumps) {
  Stream run;
  run.ranks = {RankTimes{}, RankTimes{}};
  run.pauses = {{Pause::Kind::evaluation, 50, 0.5}};
  Input input = run.input();
  for (RankSteps& rank : input.ranks) {
    for (Step& step : rank.steps) {
      if (step.update > 40) step.time_ms += 3'600'000;
      if (step.update > 60) step.time_ms -= 86'400'000;
    }
  }
  input.pauses[0].gap_ms = 86'400'000;  // the clock was set during the pause
  EXPECT_EQ(judge(input).kind, Kind::healthy);
  input.pauses[0].gap_ms = -86'400'000;
  EXPECT_EQ(judge(input).kind, Kind::healthy);
}

TEST(Verdict, MentionsSkippedUpdatesFirst) {
  Stream run;
  run.ranks = {RankTimes{}};
  Input input = run.input();
  for (std::size_t i = 60; i < 70; ++i) input.ranks[0].steps[i].skipped = true;
  EXPECT_THAT(judge(input).advice, StartsWith("10 of 80 updates were skipped because their gradient was not finite"));
}

TEST(Verdict, IgnoresStepsWithNonFiniteTimes) {
  Stream run;
  run.ranks = {RankTimes{}, RankTimes{}};
  Input input = run.input();
  for (std::size_t i = 30; i < 40; ++i) input.ranks[1].steps[i].times.backward = unknown_value;
  const Verdict verdict = judge(input);
  EXPECT_EQ(verdict.kind, Kind::healthy);
  EXPECT_EQ(value_of(verdict, "updates"), 70);
}

TEST(Median, IsTheMiddleValue) {
  EXPECT_EQ(median({}), 0);
  EXPECT_EQ(median({3, 1, 2}), 2);
  EXPECT_EQ(median({4, 1, 2, 3}), 2.5);
}

}  // namespace
}  // namespace babelring::verdict
