#include "insight/verdict/health.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

#include "insight/verdict/health_alerts.h"

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

}  // namespace
}  // namespace babelring::verdict
