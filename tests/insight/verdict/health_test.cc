#include "insight/verdict/health.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

namespace babelring::verdict {
namespace {

struct StandingCase {
  RunCondition condition;
  Level level;
  std::string text, action;
};

TEST(Health, DescribesTheStateOfARun) {
  const std::string by_hand = "Run its command again; it resumes from the last checkpoint";
  const StandingCase cases[] = {
      {{.state = "running", .update = 5}, Level::good, "Running", ""},
      {{.state = "running", .update = 1500, .silent_since = "2026-11-22T10:00:00Z"},
       Level::bad,
       "Silent since 2026-11-22T10:00:00Z: the last record is from update 1,500",
       "Check that its processes and hosts are running and can reach the server; if it has ended, run `nmt run sync` "
       "on "
       "its folder"},
      {{.state = "failed", .detail = "rank 2 on birch: CUDA out of memory", .update = 900, .resumable = true},
       Level::bad,
       "Failed at update 900: rank 2 on birch: CUDA out of memory",
       "Resume"},
      {{.state = "failed", .detail = "rank 2 on birch: CUDA out of memory", .last_error = "CUDA out of memory"},
       Level::bad,
       "Failed: rank 2 on birch: CUDA out of memory",
       by_hand},
      {{.state = "failed", .detail = "exit code 1", .last_error = "checkpoint: no space left", .update = 12},
       Level::bad,
       "Failed at update 12: exit code 1; last error: checkpoint: no space left",
       by_hand},
      {{.state = "lost", .last_error = "host is unreachable", .update = 12, .resumable = true},
       Level::bad,
       "Lost at update 12: host is unreachable",
       "Resume"},
      {{.state = "succeeded", .detail = "finished: 20e of training", .update = 2560},
       Level::good,
       "Finished at update 2,560: 20e of training",
       ""},
      {{.state = "succeeded", .detail = "early stopping: 6 evaluations without a better one", .update = 40},
       Level::good,
       "Finished at update 40: early stopping: 6 evaluations without a better one",
       ""},
      {{.state = "stopped", .detail = "stopped on request", .update = 40, .resumable = true},
       Level::unknown,
       "Stopped at update 40 on request",
       "Resume"},
      {{.state = "suspended", .detail = "the server ended"},
       Level::warning,
       "Suspended until it can go on: the server ended",
       ""},
      {{.state = "restarting", .detail = "rank 1 lost", .update = 7},
       Level::warning,
       "Restarting after a fault at update 7: rank 1 lost",
       ""},
      {{.state = "queued"}, Level::unknown, "Queued: waiting for a free slot", ""},
  };
  for (const StandingCase& expected : cases) {
    const HealthPart part = judge_state(expected.condition);
    EXPECT_EQ(part.topic, Topic::state);
    EXPECT_EQ(part.text, expected.text);
    EXPECT_EQ(part.action, expected.action) << part.text;
    EXPECT_EQ(part.level, expected.level) << part.text;
  }
}

TEST(Health, SaysThatARunWasRestartedAfterAFault) {
  const std::string by_hand = "Run its command again; it resumes from the last checkpoint";
  const Restarts two{2, 3, "2026-11-27T22:46:10.000Z", "rank 1 on vm was killed by signal 9"};
  const StandingCase cases[] = {
      {{.state = "running", .update = 5, .restarts = two},
       Level::warning,
       "Restarted 2 of 3 times, last 2026-11-27T22:46:10.000Z: rank 1 on vm was killed by signal 9",
       ""},
      {{.state = "running", .update = 5, .silent_since = "2026-11-27T23:00:00Z", .restarts = two},
       Level::bad,
       "Silent since 2026-11-27T23:00:00Z: the last record is from update 5; restarted 2 of 3 times, last "
       "2026-11-27T22:46:10.000Z: rank 1 on vm was killed by signal 9",
       "Check that its processes and hosts are running and can reach the server; if it has ended, run `nmt run sync` "
       "on its folder"},
      {{.state = "restarting", .detail = "rank 1 lost", .update = 7, .restarts = {1, 3, "", "rank 1 lost"}},
       Level::warning,
       "Restarting after a fault at update 7 (restart 1 of 3): rank 1 lost",
       ""},
      {{.state = "succeeded", .detail = "finished: 20e of training", .update = 9, .restarts = two},
       Level::warning,
       "Finished at update 9 after 2 of 3 restarts: 20e of training; last restart 2026-11-27T22:46:10.000Z: rank 1 on "
       "vm was killed by signal 9",
       ""},
      {{.state = "failed", .detail = "rank 0 lost", .update = 9, .restarts = {3, 3, "", ""}},
       Level::bad,
       "Failed at update 9 after 3 of 3 restarts: rank 0 lost",
       by_hand},
      {{.state = "lost", .update = 9, .restarts = {3, 3, "", ""}},
       Level::bad,
       "Lost at update 9 after 3 of 3 restarts",
       by_hand},
      {{.state = "stopped", .detail = "stopped on request", .update = 40, .restarts = {1, 3, "", ""}},
       Level::unknown,
       "Stopped at update 40 on request after 1 of 3 restarts",
       by_hand},
  };
  for (const StandingCase& expected : cases) {
    const HealthPart part = judge_state(expected.condition);
    EXPECT_EQ(part.text, expected.text);
    EXPECT_EQ(part.action, expected.action) << part.text;
    EXPECT_EQ(part.level, expected.level) << part.text;
  }
}

TEST(Health, TakesItsLevelAndHeadlineFromTheFirstWorstPart) {
  const Health health = health_of({{Topic::alerts, Level::bad, "an alert", "look"},
                                   {Topic::speed, Level::good, "fast", ""},
                                   {Topic::learning, Level::bad, "not learning", "lower the rate"},
                                   {Topic::state, Level::good, "Running", ""}});
  EXPECT_EQ(health.level, Level::bad);
  EXPECT_EQ(health.headline, "not learning");
  EXPECT_EQ(health.action, "lower the rate");
  EXPECT_EQ(health.parts.front().topic, Topic::state);
  EXPECT_EQ(health.parts.back().topic, Topic::alerts);
}

TEST(Health, IsUnknownUntilLearningOrSpeedIsKnown) {
  const HealthPart running{Topic::state, Level::good, "Running", ""},
      early{Topic::learning, Level::unknown, "early", ""};
  Health health = health_of({running, early, {Topic::speed, Level::unknown, "no update", ""}});
  EXPECT_EQ(health.level, Level::unknown);
  EXPECT_EQ(health.headline, "Running");
  health = health_of({running, early, {Topic::speed, Level::good, "fast", ""}});
  EXPECT_EQ(health.level, Level::good);
  EXPECT_EQ(health_of({running}).level, Level::good);
}

TEST(Health, CountsOpenAlerts) {
  EXPECT_EQ(judge_alerts({}).level, Level::good);
  HealthPart part = judge_alerts({{"disk_low", "/data: 9 MB free", false}});
  EXPECT_EQ(part.level, Level::warning);
  EXPECT_EQ(part.text, "Alert: /data: 9 MB free");
  part = judge_alerts({{"disk_low", "/data: 9 MB free", false}, {"stall", "no update for 60 s", false}});
  EXPECT_EQ(part.level, Level::bad);
  EXPECT_EQ(part.text, "2 alerts, the most severe: no update for 60 s");
  EXPECT_EQ(judge_alerts({{"stall", "no update for 60 s", true}}).level, Level::warning) << "somebody has seen it";
  part = judge_alerts({{"stall", "no update", false}, {"ranks_differ", "the weights of rank 1 differ", true}});
  EXPECT_EQ(part.level, Level::bad);
  EXPECT_NE(part.text.find("the weights of rank 1 differ"), std::string::npos);
  EXPECT_FALSE(part.action.empty());
}

TEST(Health, NamesAlertsWhoseTextTheStateSays) {
  HealthPart part = judge_alerts({{"restarted", "restart 1 of 3: rank 1 was killed", false}});
  EXPECT_EQ(part.text, "Alert: restarted");
  EXPECT_EQ(part.level, Level::warning);
  part = judge_alerts({{"restarted", "restart 3 of 3", false}, {"failed", "failed at update 9", false}});
  EXPECT_EQ(part.text, "2 alerts, the most severe: failed");
  EXPECT_EQ(part.level, Level::bad);
  EXPECT_EQ(judge_alerts({{"silent", "no record for 60 s", true}}).level, Level::warning) << "somebody has seen it";
  EXPECT_EQ(judge_alerts({{"finished", "finished at update 9", false}}).level, Level::good);
}

using ::testing::HasSubstr;
constexpr double nan = std::numeric_limits<double>::quiet_NaN();

/// `count` updates with a loss from `first` to `last` in equal steps. The last `bad` updates are skipped.
std::vector<TrainedUpdate> updates(std::int64_t count, double first, double last, std::int64_t bad = 0) {
  std::vector<TrainedUpdate> made;
  for (std::int64_t i = 0; i < count; ++i) {
    const bool skipped = i >= count - bad;
    const double at = static_cast<double>(i) / static_cast<double>(std::max<std::int64_t>(count - 1, 1));
    made.push_back({i + 1, skipped ? nan : first + (last - first) * at, skipped});
  }
  return made;
}

std::vector<ValidationResult> evaluations(std::initializer_list<double> losses, std::vector<double> bleu = {}) {
  std::vector<ValidationResult> made;
  for (const double loss : losses) {
    const auto i = made.size();
    made.push_back({static_cast<std::int64_t>(300 * (i + 1)), loss, i < bleu.size() ? bleu[i] : nan});
  }
  return made;
}

struct LearningCase {
  const char* name;
  Course course;
  Level level;
  std::string text;
};

TEST(Learning, IsJudgedByLossesAndEvaluations) {
  const LearningCase cases[] = {
      {"nothing", {}, Level::unknown, "No update has been reported yet"},
      {"two updates", {updates(2, 9, 8), {}}, Level::unknown, "Training loss 8.500"},
      {"falling", {updates(128, 3, 2), {}}, Level::good, "Training loss 2.059"},
      {"with an evaluation",
       {updates(128, 3, 2), evaluations({2.5})},
       Level::good,
       "Training loss 2.059, validation loss 2.500 after update 300"},
      {"every update skipped",
       {updates(128, 3, 2, 128), evaluations({2.5})},
       Level::bad,
       "Not learning: 128 of the last 128 updates had a non-finite loss or gradient"},
      {"a tenth skipped", {updates(128, 3, 2, 13), {}}, Level::bad, "Not learning: 13 of the last 128"},
      {"less than a tenth skipped",
       {updates(128, 3, 2, 12), {}},
       Level::warning,
       "12 of the last 128 updates had a non-finite loss or gradient"},
      {"evaluation not finite",
       {updates(128, 3, 2), evaluations({2.5, nan})},
       Level::bad,
       "its validation loss after update 600 is not finite"},
      {"rising", {updates(128, 2, 4), {}}, Level::bad, "Diverging: the training loss rose from 2.496 to 3.882"},
      {"rising a little", {updates(128, 2, 2.4), {}}, Level::good, "Training loss 2.3"},
      {"rising evaluations",
       {updates(128, 3, 2), evaluations({2.5, 2.3, 2.31, 2.35, 2.48})},
       Level::warning,
       "Overfitting: the validation loss has risen for 3 evaluations, from 2.300 at update 600 to 2.480 at update "
       "1,500"},
      {"two rising evaluations", {updates(128, 3, 2), evaluations({2.5, 2.3, 2.31, 2.35})}, Level::good, "2.350"},
      {"rising loss, rising BLEU",
       {updates(128, 3, 2), evaluations({2.3, 2.31, 2.35, 2.48}, {30, 31, 32, 33})},
       Level::good,
       "validation loss 2.480"},
      {"rising loss without a better BLEU",
       {updates(128, 3, 2), evaluations({2.3, 2.31, 2.35, 2.48}, {30, 31, 32, 31.5})},
       Level::warning,
       "Overfitting"},
      {"no better for five",
       {updates(128, 3, 2.99), evaluations({2.5, 2.3, 2.31, 2.3, 2.31, 2.3, 2.3})},
       Level::warning,
       "Plateau: no improvement for 5 evaluations; the validation loss is 2.300, its best was 2.300 at update 600"},
      {"much worse than the best, no longer rising",
       {updates(128, 3, 0.5), evaluations({2.5, 1.7, 2.6, 3.9, 4.6, 4.7, 4.72, 4.69})},
       Level::warning,
       "Overfitting: the validation loss is 4.690, its best was 1.700 at update 600"},
      {"better BLEU within five",
       {updates(128, 3, 2.99), evaluations({2.3, 2.3, 2.31, 2.3, 2.31, 2.3}, {30, 30, 30, 31, 30, 30})},
       Level::good,
       "validation loss 2.300"},
  };
  for (const LearningCase& expected : cases) {
    const HealthPart part = judge_learning(expected.course);
    EXPECT_EQ(part.topic, Topic::learning) << expected.name;
    EXPECT_EQ(part.level, expected.level) << expected.name << ": " << part.text;
    EXPECT_THAT(part.text, HasSubstr(expected.text)) << expected.name;
    EXPECT_EQ(part.action.empty(), part.level <= Level::unknown) << expected.name;
  }
}

}  // namespace

}  // namespace babelring::verdict
