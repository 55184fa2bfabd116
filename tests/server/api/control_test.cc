#include <future>
#include <set>

#include "server/store/control.h"
#include "server/store/runs.h"
#include "tests/server/api/control_fixture.h"

namespace babelring {
namespace {

using testing::Answer;
using testing::Client;
using testing::ControlTest;

TEST_F(ControlTest, ReloadsProfilesWhileRunning) {
  launch::ControlPlane& control = server.control();
  const auto held = control.find_profile("mpirun-local");
  control.use_profiles(launch::read_profiles("big: {max_ranks: 8}\nmpirun-local: {max_ranks: 3}\n", "f"));
  EXPECT_EQ(get("/api/v1/profiles").at("items").as_array().size(), 2U);
  EXPECT_EQ(control.find_profile("mpirun-local")->max_ranks, 3);
  EXPECT_EQ(control.find_profile("big")->worker, (server.folder() / "worker").string()) << "defaults are filled in";
  EXPECT_EQ(held->max_ranks, 64) << "whoever took one keeps it";

  const std::string run = submit(R"(, "profile": "big")");
  try {
    control.use_profiles(launch::builtin_profiles());
    ADD_FAILURE() << "a run waits for a profile that is gone";
  } catch (const UsageFailure& failure) {
    EXPECT_EQ(failure.what(), "profile big is missing, but run " + run + " (queued) needs it");
  }
  EXPECT_EQ(control.find_profile("mpirun-local")->max_ranks, 3) << "nothing has changed";
  ASSERT_EQ(post("/api/v1/runs/" + run + "/stop", R"({"mode": "now"})").status, 202);
  control.use_profiles(launch::builtin_profiles());
  EXPECT_EQ(control.find_profile("big"), nullptr);
}

TEST_F(ControlTest, QueuesARunAndListsItsTransitions) {
  const std::string run = submit(R"(, "name": "mine", "labels": {"team": "a"}, "notes": "why", "world_size": 2)");
  const auto item = get("/api/v1/runs/" + run);
  EXPECT_EQ(item.at("state"), "queued");
  EXPECT_EQ(item.at("labels").at("team"), "a");
  EXPECT_EQ(item.at("max_restarts"), 3);
  const auto story = get("/api/v1/runs/" + run + "/transitions").at("items").as_array();
  ASSERT_EQ(story.size(), 1U);
  EXPECT_EQ(story[0].at("to"), "queued");
  EXPECT_EQ(story[0].at("actor"), "test admin");
  EXPECT_TRUE(get("/api/v1/runs/" + run + "/attempts").at("items").as_array().empty());
  EXPECT_EQ(parse_json(post("/api/v1/runs/" + run + "/stop").body)->at("state"), "stopped");
  EXPECT_EQ(parse_json(post("/api/v1/runs/" + run + "/resume", R"({"world_size": 3})").body)->at("world_size"), 3);
  EXPECT_EQ(code(post("/api/v1/runs/" + run + "/resume")), "state_conflict");
  EXPECT_EQ(get("/api/v1/profiles").at("items").at(0).at("name"), "mpirun-local");
}

TEST_F(ControlTest, ForwardsTheWorkersConfigurationErrors) {
  put_worker(R"({"errors": [{"pointer": "/a/b", "detail": "a.b: no", "line": 2, "column": 3}]})");
  const auto answer = post("/api/v1/runs", R"({"config": "a"})");
  EXPECT_EQ(answer.status, 422);
  const auto fault = parse_json(answer.body)->at("errors").at(0);
  EXPECT_EQ(fault.at("pointer"), "/a/b");
  EXPECT_EQ(fault.at("line"), 2);
  EXPECT_EQ(fault.at("column"), 3);
  put_worker("no JSON");
  EXPECT_EQ(post("/api/v1/runs", R"({"config": "a"})").status, 500);
  put_good_worker();
  const auto valid = parse_json(post("/api/v1/runs:validate", R"({"config": "a", "world_size": 4})").body).value();
  EXPECT_EQ(valid.at("command").at(2), "4");
  EXPECT_EQ(valid.at("max_updates"), 60);
  EXPECT_TRUE(get("/api/v1/runs").at("items").as_array().empty());
}

TEST_F(ControlTest, RefusesAConfigurationThatWasNotCheckedInTime) {
  const auto worker = server.folder() / "worker";
  server.service().config_check_time = std::chrono::milliseconds(50);
  // The second one ends, but its child keeps the output open.
  for (const char* script : {"#!/bin/sh\nexec sleep 60\n", "#!/bin/sh\nsleep 60 &\n"}) {
    write_file_atomically(worker, script);
    chmod(worker.c_str(), 0755);
    const auto answer = post("/api/v1/runs", R"({"config": "a: 1"})");
    EXPECT_EQ(answer.status, 503) << script;
    EXPECT_EQ(code(answer), "late");
    EXPECT_EQ(parse_json(answer.body)->at("detail").as_string(),
              "configuration not checked in time: " + worker.string() + " exceeded the time limit of 50 ms; try again");
  }
  EXPECT_TRUE(get("/api/v1/runs").at("items").as_array().empty());
}

TEST_F(ControlTest, EstimatesFromTheConfigurationAndComparableRuns) {
  const auto worker_of = [&](const std::string& precision) {
    put_worker(
        R"({"config": "training:\n  precision: )" + precision +
        R"(\n", "name": "n", "max_updates": 60, "data_folder": "/d", "not_estimated": [], "memory": {"parameters": 5,
                  "source_tokens": 6, "target_tokens": 7, "weights": 1, "gradients": 2, "moments": 3, "activations": 4,
                  "scratch": 5, "total": 15, "unheard_of": 1}})");
  };
  const auto validate = [&](const std::string& more = "") {
    return parse_json(post("/api/v1/runs:validate", R"({"config": "a")" + more + "}").body).value();
  };
  worker_of("bf16");
  const auto first = validate();
  EXPECT_EQ(first.at("memory").at("total"), 15);
  EXPECT_FALSE(first.at("memory").as_object().contains("unheard_of"));
  EXPECT_TRUE(first.at("step_ms").is_null());
  EXPECT_TRUE(std::string(first.at("not_estimated").at(0).as_string()).starts_with("step_ms: no recorded run"));

  const std::string run(parse_json(post("/api/v1/runs", R"({"config": "a"})").body)->at("id").as_string());
  LifecycleRecord started{.event = "started", .name = "n"};
  started.world_size = 1;
  started.parameters = 5;
  started.config = "training:\n  precision: bf16\n";
  std::vector<Record> records = {testing::record_of(started, 1)};
  for (std::int64_t update = 1; update <= 23; ++update) {  // 1000 ms while it warms up, then 51 to 70
    records.push_back(testing::step_record(update + 1, update));
    std::get<StepRecord>(records.back().body).times.step = update <= 3 ? 1000 : 47 + static_cast<double>(update);
  }
  for (Record& record : records) record.header.run = run;
  server.store().write([&](store::Database& database) {
    store::begin_attempt(database, {.number = 1, .id = run, .world_size = 1}, "mpirun", "", "test", 1);
  });
  ASSERT_EQ(testing::put(server.store(), std::move(records)).status, store::IngestResult::Status::stored);
  const auto alike = validate();
  EXPECT_EQ(alike.at("step_ms_run").as_string(), run);
  EXPECT_EQ(alike.at("step_ms").to_number<double>(), 61);
  EXPECT_TRUE(alike.at("not_estimated").as_array().empty());
  EXPECT_TRUE(validate(R"(, "world_size": 2)").at("step_ms").is_null());
  worker_of("f32");
  EXPECT_TRUE(validate().at("step_ms").is_null());
  put_good_worker();
  EXPECT_TRUE(validate().at("memory").is_null());
}

TEST_F(ControlTest, RefusesInvalidSubmissions) {
  put_good_worker();
  for (const char* body :
       {"{}", R"({"config": 1})", R"({"config": "a", "config_ref": "b"})", R"({"config_ref": "r_none"})",
        R"({"config": "a", "profile": "external"})", R"({"config": "a", "profile": "x"})",
        R"({"config": "a", "world_size": 0})", R"({"config": "a", "world_size": 65})",
        R"({"config": "a", "labels": {"a=b": "c"}})", R"({"config": "a", "labels": {"a": 1}})",
        R"({"config": "a", "max_restarts": -1})", R"({"config": "a", "unknown": 1})"}) {
    const auto answer = post("/api/v1/runs", body);
    EXPECT_EQ(answer.status, 400) << body << answer.body;
  }
  EXPECT_EQ(post("/api/v1/runs", R"({"config": "a", "resume_from": "c_none"})").status, 404);
}

TEST_F(ControlTest, RefusesOneOfTwoEditsOfTheSameState) {
  const std::string path = "/api/v1/runs/" + submit();
  for (int round = 0; round < 20; ++round) {
    const std::string seen = "If-Match: " + client.get(path).headers.at("etag") + "\r\n";
    const auto edit = [&](const std::string& by) {
      const std::string body = R"({"notes": ")" + by + std::to_string(round) + R"("})";
      return Client(server.port()).request("PATCH", path, body, seen).status;
    };
    auto other = std::async(std::launch::async, edit, "b");
    const std::multiset<int> statuses = {edit("a"), other.get()};
    ASSERT_EQ(statuses, (std::multiset<int>{200, 412})) << "round " << round;
  }
}

TEST_F(ControlTest, TakesMergePatches) {
  const std::string run = submit(R"(, "labels": {"team": "a", "set": "x"}, "notes": "why")");
  const auto patch = [&](const std::string& body, const std::string& type = "application/merge-patch+json") {
    Client other(server.port());
    other.send("PATCH /api/v1/runs/" + run + " HTTP/1.1\r\nHost: localhost\r\nContent-Type: " + type + "\r\n" +
               testing::authorization() + "Content-Length: " + std::to_string(body.size()) + "\r\n\r\n" + body);
    return other.receive();
  };
  const auto changed = parse_json(patch(R"({"labels": {"team": null, "new": "n"}, "name": "m"})").body).value();
  EXPECT_EQ(changed.at("labels"), (json::object{{"set", "x"}, {"new", "n"}}));
  EXPECT_EQ(changed.at("name"), "m");
  EXPECT_EQ(changed.at("notes"), "why");
  const auto emptied = parse_json(patch(R"({"labels": null, "notes": null})").body).value();
  EXPECT_EQ(emptied.at("labels"), json::object());
  EXPECT_EQ(emptied.at("notes"), "");
  EXPECT_EQ(parse_json(patch(R"({"name": null})").body)->at("detail"), "name: cannot be removed");
  EXPECT_EQ(code(patch("[]")), "bad_body");
  EXPECT_EQ(code(patch(R"({"labels": {"x": 1}})")), "bad_body");
  // application/json replaces all labels, and null changes nothing.
  const auto whole =
      parse_json(patch(R"({"labels": {"b": "c"}, "notes": null, "name": null})", "application/json").body);
  EXPECT_EQ(whole->at("labels"), (json::object{{"b", "c"}}));
  EXPECT_EQ(whole->at("name"), "m");
  const Answer refused = patch("{}", "application/json-patch+json");
  EXPECT_EQ(refused.status, 415);
  EXPECT_EQ(refused.headers.at("accept-patch"), "application/json, application/merge-patch+json");
}

TEST_F(ControlTest, ListsRunsOfSeveralStatesAndOfChangesSince) {
  const std::string queued = submit(), running = testing::run_id;
  testing::put(server.store(), {testing::record_of(LifecycleRecord{.event = "started"}, 1)});
  const auto ids = [&](const std::string& query) {
    std::set<std::string> found;
    const auto page = get("/api/v1/runs?" + query);
    for (const auto& item : page.at("items").as_array()) found.emplace(item.at("id").as_string());
    return found;
  };
  using Ids = std::set<std::string>;
  EXPECT_EQ(ids("state=queued,running"), (Ids{queued, running}));
  EXPECT_EQ(ids("state=queued"), Ids{queued});
  EXPECT_EQ(ids("state=failed,lost"), Ids());
  EXPECT_EQ(ids("state="), (Ids{queued, running}));
  EXPECT_EQ(code(client.get("/api/v1/runs?state=queued,done")), "bad_parameter");
  EXPECT_EQ(code(client.get("/api/v1/runs?state=queued&state=running")), "bad_parameter");
  EXPECT_EQ(ids("updated_after=0"), (Ids{queued, running}));
  EXPECT_EQ(ids("updated_after=9007199254740991"), Ids());
  const std::int64_t updated_ms = [&] {
    auto reader = server.store().reader();
    return std::max(store::find_run(*reader, queued)->updated_ms, store::find_run(*reader, running)->updated_ms);
  }();
  EXPECT_EQ(ids("updated_after=" + std::to_string(updated_ms)), Ids());
  EXPECT_GE(ids("updated_after=" + std::to_string(updated_ms - 1)).size(), 1U);
}

TEST_F(ControlTest, ListsHostsAndProfilesInPages) {
  testing::put(server.store(), {testing::step_record(1, 1)});
  for (int host = 0; host < 5; ++host) {
    const std::string body = fmt::format(R"({{"attempt": 1, "rank": {}, "host": "host{}"}})", host, host);
    EXPECT_EQ(post("/api/v1/runs/" + testing::run_id + "/heartbeat", body).status, 200);
  }
  const auto names = [&](const std::string& list, const char* member) {
    std::vector<std::string> found;
    std::size_t pages = 0;
    for (std::string query = "?limit=2"; !query.empty();) {
      const Answer answer = client.get("/api/v1/" + list + query);
      const auto page = parse_json(answer.body).value();
      ++pages;
      EXPECT_LE(page.at("items").as_array().size(), 2U);
      for (const auto& item : page.at("items").as_array()) found.emplace_back(item.at(member).as_string());
      query =
          page.at("next_cursor").is_null() ? "" : "?limit=2&cursor=" + std::string(page.at("next_cursor").as_string());
      EXPECT_EQ(answer.headers.contains("link"), !query.empty());
    }
    EXPECT_EQ(pages, (found.size() + 1) / 2);
    return found;
  };
  EXPECT_EQ(names("nodes", "host"), (std::vector<std::string>{"host0", "host1", "host2", "host3", "host4"}));
  EXPECT_EQ(names("profiles", "name").size(), get("/api/v1/profiles").at("items").as_array().size());
  EXPECT_EQ(client.get("/api/v1/nodes?limit=501").status, 400);
  for (const char* cursor : {"p1.0", "n", "nzz", "n1", ""}) {
    EXPECT_EQ(code(client.get(std::string("/api/v1/nodes?cursor=") + cursor)), "bad_cursor") << cursor;
  }
}

TEST_F(ControlTest, EditsListsAndDeletes) {
  const std::string a = submit(R"(, "labels": {"team": "a"})"), b = submit();
  const std::string path = "/api/v1/runs/" + a;
  EXPECT_EQ(parse_json(send("PATCH", path, R"({"notes": "n", "archived": true})").body)->at("notes"), "n");
  EXPECT_EQ(send("PATCH", path, R"({"deleted": true})").status, 400);
  const auto count = [&](const std::string& query) {
    return get("/api/v1/runs?" + query).at("items").as_array().size();
  };
  EXPECT_EQ(count("label=team"), 1U);
  EXPECT_EQ(count("label=team=b"), 0U);
  EXPECT_EQ(count("archived=false"), 1U);
  EXPECT_EQ(count("state=queued"), 2U);
  EXPECT_EQ(count("created_after=1"), 2U);
  EXPECT_EQ(get("/api/v1/runs?sort=created_at").at("items").at(0).at("id"), a.c_str());
  for (const std::string sort : {"created_at", "-created_at", "-updated_at"}) {
    const auto first = get("/api/v1/runs?limit=1&sort=" + sort);
    const std::string cursor = first.at("next_cursor").as_string().c_str();
    const auto second = get("/api/v1/runs?limit=1&sort=" + sort + "&cursor=" + cursor);
    EXPECT_NE(first.at("items").at(0).at("id"), second.at("items").at(0).at("id")) << sort;
    EXPECT_TRUE(second.at("next_cursor").is_null()) << sort;
  }
  for (const char* query : {"state=none", "sort=name", "archived=1", "created_after=x"}) {
    EXPECT_EQ(client.get(std::string("/api/v1/runs?") + query).status, 400) << query;
  }
  EXPECT_EQ(code(send("DELETE", path, "")), "run_active");
  post(path + "/stop");
  EXPECT_EQ(send("DELETE", path, "").status, 200);
  EXPECT_EQ(count(""), 1U);
  EXPECT_EQ(code(post(path + "/resume")), "state_conflict") << "it would never start";
  EXPECT_EQ(send("PATCH", path, R"({"deleted": false})").status, 200);
  EXPECT_EQ(count(""), 2U);
  EXPECT_EQ(post(path + "/resume").status, 202);
}

TEST_F(ControlTest, RefusesACheckpointOfAnEmulatedRun) {
  Record started = testing::step_record(1, 1);
  started.body = LifecycleRecord{.event = "started", .device = "emulated"};
  testing::put(server.store(), {started, testing::step_record(2, 1)});
  const Answer refused = post("/api/v1/runs/" + std::string(testing::run_id) + "/checkpoint");
  EXPECT_EQ(refused.status, 409);
  EXPECT_EQ(code(refused), "run_emulated");
  EXPECT_NE(refused.body.find("it has no weights, so it writes no checkpoints"), std::string::npos) << refused.body;
}

}  // namespace
}  // namespace babelring
