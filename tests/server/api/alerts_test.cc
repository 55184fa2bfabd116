#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <set>
#include <string>

#include "base/json.h"
#include "insight/steps.h"
#include "server/alerts/alert_watch.h"
#include "server/store/attempts.h"
#include "server/store/control.h"
#include "server/verdict/verdict_input.h"
#include "tests/server/client.h"
#include "tests/server/test_server.h"
#include "tests/soon.h"

namespace babelring {
namespace {

using namespace std::chrono_literals;
using testing::Client;
using testing::put;
using testing::record_of;
using testing::run_id;

testing::Answer put_text(Client& client, const std::string& path, const std::string& body) {
  return client.request("PUT", path, body);
}

json::value get_json(Client& client, const std::string& path) {
  return parse_json(client.get(path).body).value();
}

/// Waits for `count` alerts and returns them.
json::array wait_for_alerts(Client& client, const std::string& query, std::size_t count) {
  json::array items;
  soon([&] {
    items = get_json(client, "/api/v1/alerts" + query).at("items").as_array();
    return items.size() >= count;
  });
  return items;
}

Record bad_step(std::int64_t update) {
  StepRecord step;
  step.update = update;
  step.loss = std::numeric_limits<double>::quiet_NaN();
  return record_of(step, update);
}

TEST(Alerts, AreRaisedOnceListedStreamedAndAcknowledged) {
  testing::TestServer server;
  alerts::AlertWatch watch(server.store(), {}, server.alert_publisher(), 20ms);
  Client client(server.port()), stream(server.port());
  stream.send("GET /api/v1/events?topic=alert HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer " +
              testing::admin_secret + "\r\n\r\n");
  EXPECT_NE(stream.read_until("retry:").find("200 OK"), std::string::npos);
  for (std::int64_t update = 1; update <= 3; ++update) {
    put(server.store(), {bad_step(update)});
    watch.observe(bad_step(update));
  }
  const auto open = wait_for_alerts(client, "?state=open", 1);
  ASSERT_EQ(open.size(), 1u);
  EXPECT_EQ(open[0].at("kind"), "nan");
  EXPECT_EQ(std::string(open[0].at("run").as_string()), run_id);
  EXPECT_NE(stream.read_until("event: alert").find("event: alert"), std::string::npos);

  const std::string path = "/api/v1/alerts/" + std::string(open[0].at("id").as_string()) + "/ack";
  const auto acknowledged = client.post(path, "{}");
  EXPECT_EQ(acknowledged.status, 200) << acknowledged.body;
  const auto first = parse_json(acknowledged.body).value();
  EXPECT_TRUE(first.at("acknowledged_at").is_string());
  EXPECT_EQ(parse_json(client.post(path, "{}").body).value().at("acknowledged_at"), first.at("acknowledged_at"));
  EXPECT_EQ(client.post("/api/v1/alerts/a_01J8ZQ4T5W6X7Y8Z9A0B1C2D3E/ack", "{}").status, 404);
  EXPECT_EQ(get_json(client, "/api/v1/alerts?state=open").at("items").as_array().size(), 1u);
  EXPECT_EQ(get_json(client, "/api/v1/alerts?state=cleared").at("items").as_array().size(), 0u);
  EXPECT_EQ(client.get("/api/v1/alerts?state=odd").status, 400);
}

TEST(Alerts, OutliveTheServerThatRaisedThem) {
  testing::TestServer server;
  {
    alerts::AlertWatch watch(server.store(), {}, server.alert_publisher(), 20ms);
    put(server.store(), {bad_step(1)});
    watch.observe(bad_step(1));
    Client client(server.port());
    ASSERT_EQ(wait_for_alerts(client, "", 1).size(), 1u);
  }
  server.restart();
  alerts::AlertWatch watch(server.store(), {}, server.alert_publisher(), 20ms);
  Record of_another_run = bad_step(1);
  of_another_run.header.run.back() = 'F';
  for (const Record& record : {bad_step(2), of_another_run}) {
    put(server.store(), {record});
    watch.observe(record);
  }
  Client client(server.port());
  const auto alerts = wait_for_alerts(client, "", 2);  // the other run's shows that both were judged
  ASSERT_EQ(alerts.size(), 2u);
  EXPECT_EQ(alerts[0].at("run").as_string(), of_another_run.header.run);
  EXPECT_EQ(get_json(client, "/api/v1/alerts?run=" + run_id).at("items").as_array().size(), 1u);
}

/// Every change of state is an event once: the server may end between the change and the alert, and after it.
TEST(Alerts, TellOfRestartsFailuresAndEndsOnce) {
  testing::TestServer server;
  const auto begin = [&] {
    server.store().write([&](store::Database& database) {
      store::begin_attempt(database, {.id = run_id, .world_size = 2}, "mpirun", "", "", wall_time_ms());
    });
  };
  const auto end = [&](std::int64_t attempt, store::RunEvent event, const std::string& cause) {
    server.store().write([&](store::Database& database) {
      store::end_attempt(database, {run_id, attempt, 1, event, cause, "supervisor"}, wall_time_ms());
    });
  };
  StepRecord step;
  step.update = 40;
  server.store().write([](store::Database& database) {
    store::create_run(database, {.id = run_id, .name = "demo", .profile = "local", .max_restarts = 3}, wall_time_ms());
  });
  begin();
  put(server.store(), {record_of(step, 1)});
  end(1, store::RunEvent::faulted, "rank 1 on vm was killed by signal 9");
  begin();
  end(2, store::RunEvent::gave_up, "rank 0 on vm was killed by signal 9");
  const auto alerts_now = [&](std::size_t count) {
    Client client(server.port());
    return wait_for_alerts(client, "", count);
  };
  {
    alerts::AlertWatch watch(server.store(), {}, server.alert_publisher(), 20ms);
    const auto alerts = alerts_now(2);
    ASSERT_EQ(alerts.size(), 2u);
    EXPECT_EQ(alerts[0].at("message"), "failed at update 40: rank 0 on vm was killed by signal 9");
    EXPECT_EQ(alerts[0].at("kind"), "failed");
    EXPECT_EQ(alerts[0].at("update"), 40) << "the newest attempt has not trained";
    EXPECT_EQ(alerts[0].at("state"), "open");
    EXPECT_EQ(alerts[1].at("message"), "restart 1 of 3 at update 40: rank 1 on vm was killed by signal 9");
    EXPECT_EQ(alerts[1].at("kind"), "restarted");
    EXPECT_EQ(alerts[1].at("subject"), "attempt 1");
  }
  server.restart();
  alerts::AlertWatch watch(server.store(), {}, server.alert_publisher(), 20ms);
  server.store().write([](store::Database& database) {
    store::request_resume(database, {.run = run_id, .actor = "a"}, wall_time_ms());
  });
  Client client(server.port());
  const json::value attempts = get_json(client, "/api/v1/runs/" + run_id + "/attempts").at("items");
  EXPECT_EQ(attempts.at(0).at("first_update"), 40);
  EXPECT_TRUE(attempts.at(1).at("first_update").is_null()) << "it has not trained";
  EXPECT_EQ(wait_for_alerts(client, "?state=cleared", 1).size(), 1u) << "resumed";
  begin();
  end(3, store::RunEvent::faulted, "rank 2 on vm was killed by signal 9");
  const auto alerts = alerts_now(3);
  ASSERT_EQ(alerts.size(), 3u) << "none was raised again";
  EXPECT_EQ(alerts[0].at("message"), "restart 1 of 3 at update 40: rank 2 on vm was killed by signal 9")
      << "counted from the resume on";
}

/// The server may have noticed nothing of the fault: it hears of the next attempt alone.
TEST(Alerts, TellOfAttemptsThatFollowAFaultByHand) {
  testing::TestServer server;
  const auto say = [&](std::int64_t attempt, std::int64_t sequence, RecordBody body) {
    put(server.store(), {record_of(std::move(body), sequence, 0, attempt)});
  };
  say(1, 1, LifecycleRecord{.event = "started", .name = "demo"});
  say(1, 2, StepRecord{.update = 40});
  say(2, 1, LifecycleRecord{.event = "started", .name = "demo"});
  say(2, 2, LifecycleRecord{.event = "stopped", .detail = "stopped on request"});
  say(3, 1, LifecycleRecord{.event = "started", .name = "demo"});
  say(3, 2, LifecycleRecord{.event = "failed", .detail = "rank 1 on vm: no memory"});
  say(4, 1, LifecycleRecord{.event = "started", .name = "demo"});
  alerts::AlertWatch watch(server.store(), {}, server.alert_publisher(), 20ms);
  Client client(server.port());
  const auto alerts = wait_for_alerts(client, "", 3);
  ASSERT_EQ(alerts.size(), 3u) << "none for the attempt after a stop on request";
  std::set<std::string> messages;
  for (const auto& alert : alerts) messages.insert(std::string(alert.at("message").as_string()));
  EXPECT_EQ(messages, (std::set<std::string>{
                          "started again by hand at update 40: the attempt before it did not report its end",
                          "failed at update 40: rank 1 on vm: no memory",
                          "started again by hand at update 40: rank 1 on vm: no memory",
                      }));
}

TEST(AlertRules, AreReplacedAsAWholeAndTakeEffect) {
  testing::TestServer server;
  alerts::AlertWatch watch(server.store(), {server.folder()}, server.alert_publisher(), 20ms);
  Client client(server.port());
  EXPECT_EQ(get_json(client, "/api/v1/alert-rules").at("items").as_array().size(), 11u);
  const auto answer = put_text(client, "/api/v1/alert-rules",
                               R"({"items":[{"name":"full","kind":"disk_low","threshold":1e15,"clear_s":0}]})");
  EXPECT_EQ(answer.status, 200) << answer.body;
  watch.reload();  // the handlers of this server know no watch
  ASSERT_EQ(wait_for_alerts(client, "?state=open", 1).size(), 1u);
  EXPECT_EQ(put_text(client, "/api/v1/alert-rules", R"({"items":[]})").status, 200);
  watch.reload();
  EXPECT_EQ(wait_for_alerts(client, "?state=cleared", 1).size(), 1u);
}

TEST(AlertRules, AreNotReplacedIfAnotherClientHasChangedThem) {
  testing::TestServer server;
  Client client(server.port());
  const auto before = client.get("/api/v1/alert-rules");
  const std::string tag = before.headers.at("etag");
  const auto put = [&](const std::string& items) {
    return client.request("PUT", "/api/v1/alert-rules", R"({"items":)" + items + "}", "If-Match: " + tag + "\r\n");
  };
  EXPECT_EQ(put(R"([{"name":"mine","kind":"stall","threshold":60}])").status, 200);
  const auto late = put("[]");
  EXPECT_EQ(late.status, 412) << late.body;
  EXPECT_EQ(get_json(client, "/api/v1/alert-rules").at_pointer("/items/0/name"), "mine");
}

TEST(AlertRules, AreRefusedWithAPointer) {
  testing::TestServer server;
  Client client(server.port());
  const auto refused = [&](const std::string& body, int status, const std::string& text) {
    const auto answer = put_text(client, "/api/v1/alert-rules", body);
    EXPECT_EQ(answer.status, status) << body;
    EXPECT_NE(answer.body.find(text), std::string::npos) << answer.body;
  };
  const std::string good = R"({"name":"a","kind":"stall","threshold":60})";
  refused("{", 400, "bad_json");
  refused(R"({"items":[],"items":[]})", 400, "bad_json");
  refused(R"({"items":3})", 400, R"("pointer":"/items")");
  refused(R"({"items":[],"more":1})", 400, R"("pointer":"/more")");
  refused(R"({"items":[3]})", 400, R"("pointer":"/items/0")");
  refused(R"({"items":[)" + good + R"(,{"name":"b","kind":"odd","threshold":60}]})", 400,
          R"("pointer":"/items/1/kind")");
  refused(R"({"items":[{"name":"b","kind":"stall"}]})", 400, R"("pointer":"/items/0/threshold")");
  refused(R"({"items":[{"name":"b","kind":"stall","threshold":60,"url":"http://x"}]})", 400,
          R"("pointer":"/items/0/url")");
  refused(R"({"items":[{"name":"b","kind":"stall","threshold":60,"run":"x"}]})", 400, "run: expected a run's id");
  refused(R"({"items":[)" + good + "," + good + "]}", 422, R"("pointer":"/items/1/name")");
  refused(R"({"items":[)" + good + R"(,{"name":"b","kind":"stall","threshold":-1}]})", 422,
          R"("pointer":"/items/1/threshold")");
  std::string many = good;
  for (int i = 0; i < 100; ++i) many += "," + good;
  refused(R"({"items":[)" + many + "]}", 400, "at most 100");
}

/// The verdict on a run on two hosts with this communication.bucket_mb.
json::value judged(const std::string& bucket_mb, const std::string& device, double reported_bucket_mb = 0) {
  testing::TestServer server;
  Client client(server.port());
  const std::string path = "/api/v1/runs/" + run_id + "/verdict";
  EXPECT_EQ(client.get(path).status, 404);
  for (const std::int64_t rank : {0, 2}) {  // of two hosts
    std::vector<Record> records;
    if (rank == 0) {
      LifecycleRecord started{.event = "started"};
      started.config = "name: x\ncommunication:\n  bucket_mb: " + bucket_mb + "\n  gradient_wire: f32\n";
      started.device = device;
      started.world_size = 2;
      started.parameters = 60'880'896;
      started.bucket_mb = reported_bucket_mb;
      records.push_back(record_of(started, 1, rank));
    }
    for (std::int64_t update = 1; update <= 60; ++update) {
      StepRecord step;
      step.update = update;
      step.times.forward = 200, step.times.backward = 400, step.times.optimizer = 40, step.times.data = 2,
      step.times.other = 1;
      step.times.exposed_communication = 1070;
      step.times.communication = 1400;
      step.times.step = 1713;
      records.push_back(record_of(step, update + 1, rank));
    }
    put(server.store(), std::move(records));
  }
  return get_json(client, path);
}

TEST(VerdictRoute, JudgesWhatWasIngested) {
  const auto verdict = judged("4", "cpu");
  EXPECT_EQ(verdict.at("verdict"), "network_bound");
  EXPECT_EQ(verdict.at("window").at("last_update"), 60);
  EXPECT_NE(verdict.at("sentence").as_string().find("bf16 gradients would save"), json::string::npos);
  EXPECT_GT(verdict.at("confidence").as_double(), 0.5);
  EXPECT_GT(verdict.at("evidence").as_array().size(), 8u);
}

/// The size for `auto` is known for CPU runs only.
TEST(VerdictRoute, KnowsTheSizeOfAutomaticBuckets) {
  const auto sentence_of = [](const std::string& bucket_mb, const std::string& device) {
    return std::string(judged(bucket_mb, device).at("sentence").as_string());
  };
  const std::string small = "0.1";  // 2,436 all-reduces an update explain a third of the wait
  EXPECT_EQ(sentence_of("auto", "cpu"), sentence_of("4", "cpu"));
  EXPECT_NE(sentence_of("auto", "cpu"), sentence_of(small, "cpu"));
  const auto evidence_of = [](double reported_bucket_mb) {
    return to_text(judged("auto", "cpu", reported_bucket_mb).at("evidence"));
  };
  EXPECT_THAT(evidence_of(0.5), ::testing::HasSubstr(R"("key":"bucket","value":0.5)"));
  EXPECT_THAT(evidence_of(0), ::testing::HasSubstr(R"("key":"assumed_bucket","value":4,)"));
  // Their size on GPUs is assumed: half of the 1,400 ms, of which backward hides 400.
  EXPECT_THAT(sentence_of("auto", "cuda (device 0: NVIDIA H200)"), ::testing::HasSubstr("would save about 700 ms"));
}

TEST(ConfigScalar, ReadsWhatDumpYamlWrites) {
  const std::string yaml =
      "name: \"a: b\"\nmodel:\n  width: 64\ncommunication:\n  gradient_wire: bf16\n  bucket_mb: 0.1\nlast:\n  deep:\n  "
      "  x: 7\n";
  EXPECT_EQ(verdict::config_scalar(yaml, "name"), "a: b");
  EXPECT_EQ(verdict::config_scalar(yaml, "model.width"), "64");
  EXPECT_EQ(verdict::config_scalar(yaml, "communication.gradient_wire"), "bf16");
  EXPECT_EQ(verdict::config_scalar(yaml, "last.deep.x"), "7");
  EXPECT_EQ(verdict::config_scalar(yaml, "model.gradient_wire"), "");
  EXPECT_EQ(verdict::config_scalar(yaml, "communication"), "");
  EXPECT_EQ(verdict::config_scalar("", "a.b"), "");
}

}  // namespace
}  // namespace babelring
