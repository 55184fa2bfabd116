// A run's health in GET, from its records, heartbeats and alerts.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <boost/json/array.hpp>
#include <cmath>

#include "base/clock.h"
#include "server/api/responses.h"
#include "server/store/attempts.h"
#include "server/store/control.h"
#include "server/verdict/run_health.h"
#include "tests/server/api_fixture.h"

namespace babelring {
namespace {

using testing::admin_secret;
using testing::Client;
using ::testing::HasSubstr;
using testing::put;
using testing::record_of;
using testing::run_id;

/// A run of one rank that computes most of its time.
class HealthTest : public testing::ApiFixture {
 protected:
  void begin(const std::string& config = "training:\n  threads: 2\n") {
    LifecycleRecord started{.event = "started", .name = "demo", .config = config, .world_size = 1};
    put(server.store(), {record_of(started, ++sequence_)});
  }
  /// `count` updates; the last `bad` of them are skipped.
  void train(std::int64_t count, std::int64_t bad = 0, double busy = 0.9) {
    std::vector<Record> records;
    for (std::int64_t i = 0; i < count; ++i) {
      StepRecord step{.update = ++update_, .loss = 3, .times = {.step = 100}};
      step.times.forward = 40;
      step.times.backward = 55;
      step.times.optimizer = 5;
      step.busy_fraction = busy;
      step.skipped = i >= count - bad;
      if (step.skipped) step.loss = NAN;
      records.push_back(record_of(step, ++sequence_));
      records.back().header.time_ms = 1'795'233'600'000 + 100 * update_;
    }
    put(server.store(), std::move(records));
  }
  void say(RecordBody body) { put(server.store(), {record_of(std::move(body), ++sequence_)}); }
  json::object health() { return get(run_path()).at("health").as_object(); }
  std::string headline() { return std::string(health().at("headline").as_string()); }
  std::string level() { return std::string(health().at("level").as_string()); }
  /// The text of the part about a topic; empty if there is none.
  std::string text_about(const char* topic) {
    const json::object found = health();
    for (const json::value& part : found.at("parts").as_array()) {
      if (part.at("topic").as_string() == topic) return std::string(part.at("text").as_string());
    }
    return "";
  }
  void raise(const std::string& kind, const std::string& message, bool cleared = false) {
    server.store().write([&](store::Database& database) {
      store::AlertRow alert;
      alert.rule = alert.kind = kind;
      alert.run = run_id;
      alert.message = message;
      store::raise_alert(database, alert);
      if (cleared) store::clear_alert(database, kind, run_id, "", wall_time_ms());
    });
  }
  std::int64_t sequence_ = 0, update_ = 0;
};

TEST_F(HealthTest, IsGoodForAHealthyRun) {
  begin();
  train(60);
  EXPECT_EQ(level(), "good");
  EXPECT_EQ(headline(), "Running");
  EXPECT_EQ(text_about("learning"), "Training loss 3.000");
  EXPECT_THAT(text_about("speed"), HasSubstr("Healthy: 100 % of each step is compute"));
  EXPECT_EQ(text_about("alerts"), "No open alert");
  EXPECT_EQ(text_about("hosts"), "") << "no heartbeat told of them";
}

TEST_F(HealthTest, ARunThatLearnsNothingIsNotHealthy) {
  begin();
  train(400, 150);
  EXPECT_EQ(level(), "bad");
  EXPECT_THAT(headline(), HasSubstr("Not learning: 128 of the last 128 updates"));
  const auto verdict = get(run_path("/verdict"));
  EXPECT_NE(verdict.at("verdict"), "healthy");
  EXPECT_THAT(std::string(verdict.at("sentence").as_string()), HasSubstr("updates were skipped"));
  const json::array items = get("/api/v1/runs").at("items").as_array();
  EXPECT_EQ(items.at(0).at("health"), json::value(health())) << "the list says the same";
}

TEST_F(HealthTest, AFailedRunStartsWithItsCause) {
  begin();
  train(60);
  say(LogRecord{.level = "error", .text = "CUDA out of memory: 12 MiB wanted"});
  say(LifecycleRecord{.event = "failed", .detail = "rank 2 on birch: CUDA out of memory"});
  EXPECT_EQ(level(), "bad");
  EXPECT_EQ(headline(),
            "Failed at update 60: rank 2 on birch: CUDA out of memory; last error: CUDA out of memory: "
            "12 MiB wanted");
  EXPECT_THAT(std::string(health().at("action").as_string()), HasSubstr("resumes from the last checkpoint"));
  EXPECT_EQ(text_about("speed"), "") << "nobody waits for a run that is over";
}

TEST_F(HealthTest, ARunRestartedAfterAFaultSaysSoUntilItIsResumed) {
  std::int64_t attempt = 0;
  const auto write = [&](const std::function<void(store::Database&)>& change) { server.store().write(change); };
  const auto begin_next = [&] {
    write([&](store::Database& database) {
      attempt = store::begin_attempt(database, {.id = run_id, .world_size = 1}, "mpirun", "", "", 5).value();
    });
  };
  const auto end = [&](store::RunEvent event, const std::string& cause, std::int64_t time_ms) {
    write([&](store::Database& database) {
      store::end_attempt(database, {run_id, attempt, 1, event, cause, "supervisor"}, time_ms);
    });
  };
  write([](store::Database& database) {
    store::create_run(database, {.id = run_id, .profile = "local", .max_restarts = 3}, 5);
  });
  begin_next();
  train(60);
  EXPECT_EQ(headline(), "Running");
  end(store::RunEvent::faulted, "rank 1 on vm was killed by signal 9", 1'795'233'610'000);
  EXPECT_EQ(headline(), "Restarting after a fault at update 60 (restart 1 of 3): rank 1 on vm was killed by signal 9");
  begin_next();
  write([&](store::Database& database) {
    store::change_state(database, {run_id, store::RunEvent::reported, "", ""}, wall_time_ms());
  });
  const std::string restarted = "1 of 3 times, last 2026-11-21T04:00:10.000Z: rank 1 on vm was killed by signal 9";
  EXPECT_EQ(headline(), "Restarted " + restarted);
  EXPECT_EQ(level(), "warning");
  const json::value listed = get("/api/v1/runs").at("items").as_array().at(0).at("health");
  EXPECT_EQ(listed.at("headline"), json::value("Restarted " + restarted)) << "the list says the same";
  end(store::RunEvent::finished, "finished: 60u of training", 1'795'233'700'000);
  EXPECT_EQ(headline(),
            "Finished at update 60 after 1 of 3 restarts: 60u of training; last restart 2026-11-21T04:00:10.000Z: rank "
            "1 on vm was killed by signal 9");
  EXPECT_EQ(level(), "warning");
  write([](store::Database& database) {
    store::request_resume(database, {.run = run_id, .actor = "a"}, wall_time_ms());
  });
  EXPECT_EQ(headline(), "Queued: waiting for a free slot: resumed from the newest checkpoint") << "counted anew";
}

/// A wrapper, or a user, starts a killed run again: the server hears only of the next attempt.
TEST_F(HealthTest, ARunStartedAgainByHandAfterAFaultSaysSo) {
  const auto say_in = [&](std::int64_t attempt, std::int64_t sequence, RecordBody body) {
    Record record = record_of(std::move(body), sequence, 0, attempt);
    record.header.time_ms = 1'795'233'600'000 + attempt * 60'000;
    put(server.store(), {record});
  };
  const auto start = [&](std::int64_t attempt) {
    say_in(attempt, 1, LifecycleRecord{.event = "started", .name = "demo", .world_size = 1});
    say_in(attempt, 2, StepRecord{.update = 60 * attempt, .loss = 3, .times = {.step = 100}});
  };
  start(1);
  say_in(1, 3, LifecycleRecord{.event = "stopped", .detail = "stopped on request"});
  start(2);
  EXPECT_EQ(headline(), "Running") << "a stop on request is no fault";
  start(3);
  EXPECT_EQ(headline(), "Started again once after a fault, last 2026-11-21T04:03:00.000Z") << "nobody knows why";
  EXPECT_EQ(level(), "warning");
  say_in(3, 3, LifecycleRecord{.event = "failed", .detail = "rank 1 on vm: no memory"});
  EXPECT_EQ(headline(), "Failed at update 180 after 1 fault: rank 1 on vm: no memory");
  start(4);
  const std::string last = "last 2026-11-21T04:03:00.000Z: rank 1 on vm: no memory";
  EXPECT_EQ(headline(), "Started again 2 times after a fault, " + last);
  EXPECT_EQ(get(run_path()).at("restarts"), 2);
  EXPECT_TRUE(get(run_path()).at("max_restarts").is_null());
  say_in(4, 3, LifecycleRecord{.event = "finished", .detail = "finished: 240u of training"});
  EXPECT_EQ(headline(),
            "Finished at update 240 after 2 faults: 240u of training; last fault 2026-11-21T04:03:00.000Z: rank 1 on "
            "vm: no memory");
  EXPECT_EQ(level(), "warning");
}

TEST_F(HealthTest, AnEarlyStoppedRunIsNoPlateau) {
  begin();
  train(60);
  for (std::int64_t i = 1; i <= 8; ++i) {
    say(EvalRecord{.update = 7 * i, .set = "valid", .loss = 2.5, .sacrebleu = 30, .best = i == 1});
  }
  EXPECT_THAT(headline(), HasSubstr("Plateau: no improvement for 5 evaluations"));
  EXPECT_EQ(level(), "warning");
  say(LifecycleRecord{.event = "finished", .detail = "early stopping: 7 evaluations without a better one"});
  EXPECT_EQ(level(), "good");
  EXPECT_EQ(headline(), "Finished at update 60: early stopping: 7 evaluations without a better one");
}

TEST_F(HealthTest, EvaluationsOfOtherSetsDoNotCount) {
  begin("data:\n  valid_set: valid\n");
  train(60);
  for (std::int64_t i = 1; i <= 5; ++i) {
    say(EvalRecord{.update = 10 * i, .set = "valid", .loss = 3 - 0.1 * static_cast<double>(i), .sacrebleu = NAN});
    say(EvalRecord{.update = 10 * i, .set = "test", .loss = 2 + 0.1 * static_cast<double>(i), .sacrebleu = NAN});
  }
  EXPECT_EQ(level(), "good");
  EXPECT_THAT(text_about("learning"), HasSubstr("validation loss 2.500 after update 50"));
}

TEST_F(HealthTest, LossesOfAnotherContentOfTheSetDoNotCount) {
  begin("data:\n  valid_set: valid\n");
  train(80);
  for (std::int64_t i = 1; i <= 10; ++i) {
    const bool old = i <= 4;  // half as large a loss
    say(EvalRecord{.update = 7 * i,
                   .set = "valid",
                   .loss = old ? 1.5 : 3 - 0.01 * static_cast<double>(i),
                   .sacrebleu = old ? 60.0 : 20.0,
                   .set_digest = old ? "aa" : "bb",
                   .scoring = old ? "cc" : "dd"});
  }
  EXPECT_EQ(level(), "good") << headline();
}

TEST_F(HealthTest, AStaleRunIsSilentAndHasNoTimeLeft) {
  begin();
  train(60);
  auto reader = server.store().reader();
  store::RunRow run = store::find_run(*reader, run_id).value();
  run.max_updates = 100;
  verdict::HealthCache book;
  verdict::HealthCache::Budget budget;
  const auto item = [&](std::int64_t age_ms) {
    const std::int64_t now_ms = run.updated_ms + age_ms;
    return api::run_item(run, book.health(*reader, run, {}, nullptr, now_ms, budget), now_ms);
  };
  EXPECT_EQ(item(1000).at("eta_seconds"), 4);
  const json::object late = item(60'001);
  EXPECT_TRUE(late.at("eta_seconds").is_null());
  EXPECT_EQ(late.at("health").at("level"), "bad");
  EXPECT_THAT(std::string(late.at("health").at("headline").as_string()), HasSubstr("Silent since "));
}

TEST_F(HealthTest, NamesOtherProgramsOnTheHost) {
  begin();
  train(60, 0, 0.23);
  EXPECT_EQ(level(), "warning");
  EXPECT_THAT(text_about("speed"), HasSubstr("busy only 23 %"));
  const std::string beat = R"({"attempt":1,"rank":0,"host":"vm","processors":2,"load":12.7})";
  EXPECT_EQ(Client(server.port()).post(run_path("/heartbeat"), beat).status, 200);
  train(1, 0, 0.23);
  EXPECT_THAT(std::string(get(run_path("/verdict")).at("sentence").as_string()),
              HasSubstr("load 12.7 on 2 processors: other programs take most of them"));
  // The response may come from the cache at first.
  for (int i = 0; i < 1000 && text_about("hosts").empty(); ++i) train(1, 0, 0.23);
  EXPECT_THAT(headline(), HasSubstr("load 12.7 on 2 processors: other programs take most of them"));
  EXPECT_EQ(level(), "warning");
}

TEST_F(HealthTest, IncludesAlertsAndKeepsDifferingRanks) {
  begin();
  train(60);
  raise("throughput_drop", "9 target tokens/s, usually 900");
  EXPECT_EQ(level(), "warning");
  EXPECT_EQ(headline(), "Alert: 9 target tokens/s, usually 900");
  raise("ranks_differ", "after update 40 the weights of rank 1 differ from those of rank 0", true);
  EXPECT_EQ(level(), "bad");
  say(LifecycleRecord{.event = "finished", .detail = "finished: 60u of training"});
  EXPECT_EQ(level(), "bad");
  EXPECT_THAT(headline(), HasSubstr("after update 40 the weights of rank 1 differ from those of rank 0"));
}

TEST_F(HealthTest, AListComputesHealthWithinItsBudget) {
  begin();
  train(60);
  auto reader = server.store().reader();
  const store::RunRow run = store::find_run(*reader, run_id).value();
  verdict::HealthCache book;
  verdict::HealthCache::Budget none{.time = verdict::HealthCache::Milliseconds(0)};
  EXPECT_EQ(book.health(*reader, run, {}, nullptr, run.updated_ms, none).parts.size(), 2u) << "state and alerts";
  verdict::HealthCache::Budget some;
  const std::size_t all = book.health(*reader, run, {}, nullptr, run.updated_ms, some).parts.size();
  EXPECT_EQ(all, 4u);
  EXPECT_EQ(book.health(*reader, run, {}, nullptr, run.updated_ms, none).parts.size(), all) << "what is known is said";
}

}  // namespace
}  // namespace babelring
