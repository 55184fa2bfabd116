#include "server/store/control.h"
#include "server/store/runs.h"
#include "tests/server/api/control_fixture.h"
#include "tests/soon.h"

namespace babelring {
namespace {

using testing::Answer;
using testing::ControlTest;

TEST_F(ControlTest, AnswersHeartbeatsWithCommands) {
  const std::string run = submit(R"(, "world_size": 2)");
  EXPECT_EQ(beat("r_00000000000000000000000000", 1).status, 404);
  const store::LaunchRow launched = [&] {
    auto reader = server.store().reader();
    return store::active_launches(*reader).at(0);
  }();
  server.store().write([&](store::Database& database) {
    store::begin_attempt(database, launched, "mpirun", "", "test", 1);
    store::change_state(database, {run, store::RunEvent::reported, "test", "test"}, 2);
  });
  EXPECT_EQ(parse_json(beat(run, 1).body)->at("commands").as_array().size(), 0U);
  EXPECT_EQ(beat(run, 1, 0, R"(, "humidity": 1)").status, 200) << "a newer worker is not dead";
  std::int64_t requested = 0;
  Answer again;
  EXPECT_TRUE(soon([&] {  // two within 10 s
    again = post("/api/v1/runs/" + run + "/checkpoint");
    if (again.status == 202) {
      EXPECT_EQ(parse_json(again.body)->at("number"), ++requested);
    }
    return again.status != 202;
  }));
  EXPECT_GE(requested, 1);
  EXPECT_EQ(code(again), "too_soon");
  EXPECT_EQ(again.status, 429);
  EXPECT_TRUE(again.headers.contains("retry-after"));
  EXPECT_EQ(parse_json(beat(run, 1).body)->at("commands").at(0).at("number"), requested);
  EXPECT_TRUE(parse_json(beat(run, 1, 1).body)->at("commands").as_array().empty()) << "rank 0 asks the others";
  const std::string done = fmt::format(R"(, "checkpoint_done": {})", requested);
  EXPECT_TRUE(parse_json(beat(run, 1, 0, done).body)->at("commands").as_array().empty());
  EXPECT_EQ(post("/api/v1/runs/" + run + "/stop", R"({"mode": "now"})").status, 202);
  EXPECT_EQ(parse_json(beat(run, 1, 1).body)->at("commands").at(0).at("mode"), "now");
  server.store().write([&](store::Database& database) { store::fence_attempt(database, launched.number, 1); });
  EXPECT_EQ(code(beat(run, 1)), "stale_attempt");
  EXPECT_EQ(beat(run, 0).status, 400);
  EXPECT_EQ(beat(run, 1, 0, R"(, "pid": "x")").status, 400);
  EXPECT_EQ(get("/api/v1/nodes").at("items").at(0).at("ranks").as_array().size(), 2U);
  EXPECT_EQ(get("/api/v1/nodes/hostA").at("host"), "hostA");
  EXPECT_EQ(client.get("/api/v1/nodes/hostB").status, 404);
}

TEST_F(ControlTest, ShowsGpusFromHeartbeats) {
  for (const std::int64_t rank : {0, 1}) testing::put(server.store(), {testing::step_record(1, 1, rank)});
  const std::string told =
      R"("gpu": {"utilization_percent": 93, "memory_used_bytes": 40000000000, "power_w": 412.5, "power_limit_w": 700, "fans": 3})";
  EXPECT_EQ(beat(testing::run_id, 1, 0, ", " + told).status, 200);
  EXPECT_EQ(beat(testing::run_id, 1, 1).status, 200);
  const std::string shown =
      R"({"utilization_percent":93,"memory_used_bytes":40000000000,"clock_mhz":null,"power_w":412.5,"power_limit_w":700})";
  const auto ranks = get("/api/v1/runs/" + testing::run_id + "/ranks").at("items");
  EXPECT_EQ(to_text(ranks.at(0).at("gpu")), shown);
  EXPECT_TRUE(ranks.at(1).at("gpu").is_null());
  const auto node = get("/api/v1/nodes/hostA");
  EXPECT_EQ(to_text(node.at("ranks").at(0).at("gpu")), shown);
  EXPECT_TRUE(node.at("ranks").at(1).at("gpu").is_null());
  EXPECT_TRUE(node.at("silent").is_bool());
  const auto refused = beat(testing::run_id, 1, 0, R"(, "gpu": {"power_w": "much"})");
  EXPECT_EQ(refused.status, 400);
  EXPECT_EQ(parse_json(refused.body)->at("errors").at(0).at("pointer"), "/gpu/power_w");
}

TEST_F(ControlTest, DoesNotSuperviseARunStartedByHand) {
  testing::put(server.store(), {testing::step_record(1, 1)});
  const std::string path = "/api/v1/runs/" + testing::run_id;
  EXPECT_EQ(get(path).at("profile"), "external");
  EXPECT_TRUE(get(path).at("max_restarts").is_null());
  EXPECT_EQ(code(post(path + "/resume")), "not_managed");
  EXPECT_EQ(code(post(path + "/stop")), "unreachable");
  EXPECT_EQ(code(send("DELETE", path, "")), "run_active");
  EXPECT_TRUE(soon([&] {  // within 10 s of a heartbeat
    beat(testing::run_id, 1);
    return post(path + "/stop").status == 202;
  }));
  EXPECT_TRUE(get(path + "/ranks").at("items").at(0).at("heartbeat_age_ms").is_int64());
  testing::put(server.store(), {testing::record_of(LifecycleRecord{.event = "stopped"}, 2)});
  EXPECT_EQ(get(path).at("state"), "stopped");
  EXPECT_EQ(code(post(path + "/stop")), "state_conflict") << "over, whether its ranks send heartbeats or not";
  EXPECT_EQ(get(path + "/attempts").at("items").at(0).at("launcher"), "external");
}

TEST_F(ControlTest, TellsTheLastMinuteBeforeAnEnd) {
  testing::put(server.store(),
               {testing::step_record(1, 1), testing::record_of(LogRecord{.level = "error", .text = "out"}, 2)});
  const std::string run = testing::run_id, path = "/api/v1/runs/" + run + "/ends";
  EXPECT_EQ(to_text(get(path)), R"({"items":[],"next_cursor":null})");
  const std::string host =
      R"(, "processors": 4, "memory_bytes": 16000000000, "memory_limit_bytes": 8000000000, "load": 3.5)";
  EXPECT_EQ(beat(run, 1, 0, host + R"(, "memory_left_bytes": 300000000, "resident_bytes": 7100000000)").status, 200);
  EXPECT_EQ(beat(run, 1, 0, R"(, "temperature_celsius": "hot")").status, 400);
  EXPECT_TRUE(get(path).at("items").as_array().empty()) << "it reports";
  EXPECT_EQ(beat(run, 2, 0, R"(, "temperature_celsius": 51.5)").status, 200) << "started again by hand";
  launch::Heartbeats& heartbeats = server.service().control->heartbeats();
  server.store().write([&](store::Database& database) {  // as the supervisor's thread does, which tests do not start
    for (const launch::BlackBox& box : heartbeats.take_ended(std::chrono::hours(1))) {
      store::put_black_box(database, box.run, heartbeats.row_of(box));
    }
  });
  ASSERT_EQ(get(path).at("items").as_array().size(), 1U);
  const json::value end = get(path).at("items").at(0);
  EXPECT_EQ(end.at("attempt"), 1);
  EXPECT_EQ(end.at("summary"),
            "memory ran out on hostA: 0.3 GB of 8.0 GB free, load 3.5 on 4 processors; rank 0 on hostA had 7.1 GB");
  EXPECT_EQ(end.at("ranks").at(0).at("rank"), 0);
  EXPECT_EQ(end.at("log").at(0).at("text"), "out");
  EXPECT_EQ(get("/api/v1/nodes/hostA").at("temperature_celsius"), 51.5);
  EXPECT_EQ(code(send("GET", "/api/v1/runs/r_00000000000000000000000000/ends", "")), "run_unknown");
}

TEST_F(ControlTest, AHeartbeatAnnouncesANewerAttemptBeforeItsRecords) {
  testing::put(server.store(), {testing::step_record(1, 1)});
  const std::string run = testing::run_id, path = "/api/v1/runs/" + run;
  EXPECT_EQ(beat(run, 1).status, 200);
  EXPECT_EQ(beat(run, 2).status, 200) << "somebody started the folder again; the spool of attempt 1 is not drained yet";
  EXPECT_EQ(get(path).at("attempt"), 2);
  EXPECT_EQ(get(path + "/attempts").at("items").at(1).at("launcher"), "external");
  EXPECT_EQ(code(beat(run, 1)), "stale_attempt");
  testing::put(server.store(), {testing::step_record(2, 2)});  // a late record of attempt 1
  EXPECT_EQ(get(path).at("attempt"), 2);
  EXPECT_EQ(beat(run, 2).status, 200);
  testing::put(server.store(), {testing::record_of(LifecycleRecord{.event = "stopped"}, 3)});
  EXPECT_EQ(get(path).at("state"), "running") << "attempt 1 no longer says how the run stands";
}
}  // namespace
}  // namespace babelring
