#include <algorithm>
#include <set>

#include "base/records/library_versions.h"
#include "tests/server/api_fixture.h"

namespace babelring {
namespace {

using testing::Client;
using testing::record_of;
using testing::run_id;
using testing::step_record;

class ApiTest : public testing::ApiFixture {};

TEST_F(ApiTest, IngestsOnceAndKeepsEverythingOverARestart) {
  const std::vector<Record> records = {step_record(1, 1), step_record(2, 2)};
  EXPECT_EQ(post(records).body, R"({"accepted":2,"duplicates":0})");
  EXPECT_EQ(post(records).body, R"({"accepted":0,"duplicates":2})");
  server.restart();
  EXPECT_EQ(post(records).body, R"({"accepted":0,"duplicates":2})");
  const auto series = get(run_path("/metrics/loss"));
  EXPECT_EQ(to_text(series.at("step")), "[1,2]");
  EXPECT_EQ(to_text(series.at("value")), "[10,5]");
}

TEST_F(ApiTest, FollowsTheLifeOfARun) {
  LifecycleRecord started;
  started.event = "started";
  started.name = "demo";
  started.config = "seed: 1\n";
  started.world_size = 1;
  started.max_updates = 10;
  post({record_of(started, 1), step_record(2, 4)});
  auto run = get(run_path());
  EXPECT_EQ(run["state"], "running");
  EXPECT_EQ(run["name"], "demo");
  EXPECT_EQ(run["config"], "seed: 1\n");
  EXPECT_EQ(run["update"], 4);
  EXPECT_EQ(run["loss"], 2.5);
  EXPECT_EQ(run["eta_seconds"], 1);
  EXPECT_EQ(run["progress"],
            parse_json(R"({"fraction":0.4,"seconds_left":1,"end":"10 updates","at_latest":false})").value());
  EXPECT_EQ(run["health"].at("headline"), "Running");
  LifecycleRecord failed;
  failed.event = "failed";
  failed.detail = "rank 1 lost";
  LifecycleRecord finished;
  finished.event = "finished";
  post({record_of(failed, 3), record_of(finished, 4)});
  run = get(run_path());
  EXPECT_EQ(run["state"], "failed");
  EXPECT_EQ(run["detail"], "rank 1 lost");
  EXPECT_TRUE(run["finished_at"].is_string());
  post({step_record(1, 5, 0, 2)});
  run = get(run_path());
  EXPECT_EQ(run["state"], "running");
  EXPECT_EQ(run["attempt"], 2);
  EXPECT_EQ(post({step_record(9, 6)}).status, 200);  // late records of the older attempt are stored
  EXPECT_EQ(get(run_path())["attempt"], 2);
}

TEST_F(ApiTest, ShowsProgressForEveryEndCondition) {
  LifecycleRecord started;
  started.event = "started";
  started.end = "20 epochs";
  started.may_end_sooner = true;
  Record step = step_record(2, 300);
  std::get<StepRecord>(step.body).fraction_done = 0.62;
  std::get<StepRecord>(step.body).seconds_left = 270.2;
  post({record_of(started, 1), step});
  auto run = get(run_path());
  EXPECT_EQ(run["progress"],
            parse_json(R"({"fraction":0.62,"seconds_left":271,"end":"20 epochs","at_latest":true})").value());
  EXPECT_EQ(run["eta_seconds"], 271);
  LifecycleRecord failed;
  failed.event = "failed";
  failed.detail = "CUDA out of memory";
  post({record_of(failed, 3)});
  run = get(run_path());
  EXPECT_EQ(run["progress"].at("fraction"), 0.62);
  EXPECT_TRUE(run["progress"].at("seconds_left").is_null());
  EXPECT_TRUE(run["eta_seconds"].is_null());
  EXPECT_EQ(run["health"].at("headline"), "Failed at update 300: CUDA out of memory");
  EXPECT_EQ(run["health"].at("level"), "bad");
}

TEST_F(ApiTest, MarksEmulatedRuns) {
  LifecycleRecord started;
  started.event = "started";
  post({record_of(started, 1)});
  EXPECT_EQ(get(run_path())["emulated"], false);
  started.device = "emulated";
  std::vector<Record> records = {record_of(started, 2)};
  for (std::int64_t update = 1; update <= 30; ++update) {
    Record step = step_record(update + 2, update);
    std::get<StepRecord>(step.body).loss = NAN;
    records.push_back(step);
  }
  post(records);
  const auto run = get(run_path());
  EXPECT_EQ(run.at("emulated"), true);
  EXPECT_TRUE(run.at("loss").is_null());
  EXPECT_NE(run.at("health").at("level"), "bad");
}

TEST_F(ApiTest, ShowsEvalsRanksAndLogs) {
  EvalRecord eval;
  eval.update = 7;
  eval.set = "valid";
  eval.sacrebleu = 31.25;
  eval.samples = {{"Hund", "dog", "dog"}};
  LogRecord log;
  log.level = "warn";
  log.text = "100% of \x1b[31m it";
  EvalRecord forced = eval;
  forced.update = 8;
  forced.sacrebleu = NAN;
  forced.teacher_forced_bleu = 40.5;
  forced.nll = 1.75;
  forced.entropy = 1.5;
  post({record_of(eval, 1), record_of(log, 2), record_of(forced, 3)});
  const auto evals = get(run_path("/evals"));
  const json::object item = evals.at("items").at(0).as_object();
  EXPECT_EQ(item.at("sacrebleu"), 31.25);
  EXPECT_TRUE(item.at("teacher_forced_bleu").is_null());
  EXPECT_FALSE(item.contains("samples"));
  EXPECT_FALSE(item.contains("entropy") || item.contains("excess"));
  EXPECT_EQ(evals.at("items").at(1).at("teacher_forced_bleu"), 40.5);
  EXPECT_EQ(evals.at("items").at(1).at("entropy"), 1.5);
  EXPECT_EQ(evals.at("items").at(1).at("excess"), 0.25);
  EXPECT_TRUE(evals.at("items").at(1).at("sacrebleu").is_null());
  const auto one = get("/api/v1/evals/" + std::string(item.at("id").as_string()));
  EXPECT_EQ(one.at("samples").at(0).at("hypothesis"), "dog");
  EXPECT_EQ(get(run_path("/ranks")).at("items").at(0).at("host"), "hostA");
  EXPECT_EQ(get(run_path("/logs?q=100%25")).at("items").as_array().size(), 1u);
  EXPECT_EQ(get(run_path("/logs?q=1000")).at("items").as_array().size(), 0u);
  EXPECT_EQ(get(run_path()).at("best").at("sacrebleu"), 31.25);
}

TEST_F(ApiTest, AcceptsValidationsFromOutsideTheTraining) {
  post({step_record(1, 1), step_record(2, 2)});
  Client client(server.port(), server.token(http::Scope::ingest, run_id));
  const std::string key = "Idempotency-Key: one\r\n";
  const std::string body =
      R"({"update":2,"set":"newstest","sacrebleu":20.5,"samples":[{"source":"a","reference":"b","hypothesis":"c"}]})";
  const auto made = client.post(run_path("/evals"), body, key);
  ASSERT_EQ(made.status, 201) << made.body;
  const auto again = client.post(run_path("/evals"), body, key);
  EXPECT_EQ(again.headers.at("location"), made.headers.at("location"));
  const auto evals = get(run_path("/evals")).at("items").as_array();
  ASSERT_EQ(evals.size(), 1u);
  EXPECT_EQ(evals[0].at("set"), "newstest");
  EXPECT_EQ(evals[0].at("update"), 2);
  EXPECT_FALSE(evals[0].at("best").as_bool());
  EXPECT_TRUE(evals[0].at("loss").is_null());
  EXPECT_EQ(get(made.headers.at("location")).at("samples").at(0).at("hypothesis"), "c");
  for (const auto& [wrong, pointer] : std::vector<std::pair<std::string, std::string>>{
           {R"({"set":"a"})", "/update"},
           {R"({"update":1})", "/set"},
           {R"({"update":1,"set":"a","accuracy":2})", "/accuracy"},
           {R"({"update":1,"set":"a","best":true})", "/best"},
           {R"({"update":1,"set":"a","samples":[{"source":1}]})", "/samples/0/source"},
           {R"({"update":1,"set":"a","samples":[{"source":")" + std::string(4097, 'x') + R"("}]})",
            "/samples/0/source"}}) {
    const auto refused = client.post(run_path("/evals"), wrong);
    EXPECT_EQ(refused.status, 400) << wrong;
    EXPECT_EQ(parse_json(refused.body)->at("errors").at(0).at("pointer").as_string(), pointer);
  }
  std::string other = run_id;
  other.back() = 'F';
  EXPECT_EQ(Client(server.port()).post("/api/v1/runs/" + other + "/evals", body).status, 404);
  EXPECT_EQ(get(run_path("/evals")).at("items").as_array().size(), 1u);
}

TEST_F(ApiTest, AcceptsValidationsFromOperatorsForEveryRun) {
  post({step_record(1, 1)});
  Client client(server.port(), server.token(http::Scope::operate));
  const std::string body = R"({"update":1,"set":"valid","sacrebleu":20.5})";
  EXPECT_EQ(client.post(run_path("/evals"), body).status, 201);
  EXPECT_EQ(get(run_path()).at("best").at("sacrebleu"), 20.5);
  const auto refused = Client(server.port(), server.token(http::Scope::read)).post(run_path("/evals"), body);
  EXPECT_EQ(refused.status, 403);
  EXPECT_EQ(parse_json(refused.body)->at("detail"), "this needs a token whose scope is ingest or operate, found read");
  EXPECT_EQ(get(run_path("/evals")).at("items").as_array().size(), 1u);
}

TEST_F(ApiTest, IgnoresOtherSetsForTheBestAndLastValidation) {
  EvalRecord eval;
  eval.update = 1;
  eval.set = "valid";
  eval.sacrebleu = 20;
  post({step_record(1, 1), record_of(eval, 2)});
  Client client(server.port(), server.token(http::Scope::ingest, run_id));
  ASSERT_EQ(client.post(run_path("/evals"), R"({"update":1,"set":"test","sacrebleu":30})").status, 201);
  const auto run = get(run_path());
  EXPECT_EQ(run.at("best").at("set"), "valid");
  EXPECT_EQ(run.at("last_eval").at("set"), "valid");
  EXPECT_EQ(get(run_path("/evals")).at("items").as_array().size(), 2u);
}

TEST_F(ApiTest, StoresKnownMembersOfANewerWorkersRecords) {
  const auto answer =
      Client(server.port())
          .post(testing::records_path(),
                R"({"attempt":1,"rank":0,"host":"h","records":[{"sequence":1,"kind":"step","time_ms":1,)"
                R"("update":1,"loss":2.5,"humidity":0.5},{"sequence":2,"kind":"log","time_ms":1,)"
                R"("level":"info","text":"t","colour":"red"}]})");
  EXPECT_EQ(answer.status, 200) << answer.body;
  EXPECT_EQ(get(run_path())["loss"], 2.5);
  const auto metrics = get(run_path("/metrics")).at("items").as_array();
  EXPECT_TRUE(
      std::none_of(metrics.begin(), metrics.end(), [](const auto& item) { return item.at("key") == "humidity"; }));
  const std::string counted = Client(server.port()).get("/metrics").body;
  EXPECT_NE(counted.find("babelring_ingest_unknown_members_total 2"), std::string::npos);
}

TEST_F(ApiTest, ListsRequestedMembers) {
  post({step_record(1, 1)});
  const auto page = get("/api/v1/runs?fields=state,id,update");
  EXPECT_EQ(to_text(page.at("fields")), R"(["state","id","update"])");
  EXPECT_EQ(to_text(page.at("items").at(0)), R"({"state":"running","id":")" + run_id + R"(","update":1})");
  EXPECT_FALSE(get("/api/v1/runs?fields=").contains("fields"));
  for (const char* wrong : {"id,none", "config", "id,,state"}) {
    const auto answer = Client(server.port()).get(std::string("/api/v1/runs?fields=") + wrong);
    EXPECT_EQ(answer.status, 400) << wrong;
  }
}

TEST_F(ApiTest, ShowsTheStateOfARank) {
  post({testing::record_of(LifecycleRecord{.event = "rank_up"}, 1)});
  const auto state = [&] { return get(run_path("/ranks")).at("items").at(0).at("state"); };
  EXPECT_EQ(state(), "starting");
  post({step_record(2, 1)});
  EXPECT_EQ(state(), "training");
  server.store().write([](store::Database& database) { database.execute("UPDATE ranks SET updated_ms = 1"); });
  EXPECT_EQ(state(), "silent");
  Client(server.port()).post(run_path("/heartbeat"), R"({"attempt":1,"rank":0,"host":"h"})");
  EXPECT_EQ(state(), "training");
  post({testing::record_of(LifecycleRecord{.event = "finished"}, 3)});
  EXPECT_EQ(state(), "ended");
}

TEST_F(ApiTest, ShowsTheLibrariesOfARank) {
  const auto shown = [&](const std::string& path) {
    return to_text(get(run_path(path)).at("items").at(0).at("libraries"));
  };
  post({testing::record_of(LifecycleRecord{.event = "started", .name = "n", .world_size = 1}, 1),
        testing::record_of(LifecycleRecord{.event = "rank_up", .pid = 7}, 2), step_record(3, 1)});
  EXPECT_EQ(shown("/ranks"), "{}") << "of an older worker";
  EXPECT_EQ(to_text(get(run_path("/report")).at("environment")), R"({"libraries":{}})");
  json::object libraries = to_json(LibraryVersions{.onednn = "2.6.3", .open_mpi = "4.1.4", .glibc = "2.36"});
  libraries["other"] = 5;
  post({testing::record_of(LifecycleRecord{.event = "rank_up", .pid = 7, .libraries = libraries}, 4)});
  EXPECT_EQ(shown("/ranks"), R"({"onednn":"2.6.3","open_mpi":"4.1.4","glibc":"2.36"})");
  EXPECT_EQ(to_text(get(run_path("/report")).at("environment")),
            R"({"libraries":{"onednn":"2.6.3","open_mpi":"4.1.4","glibc":"2.36"}})");
}

TEST_F(ApiTest, PagesThroughRuns) {
  for (int i = 0; i < 5; ++i) {
    Record record = step_record(1, 1);
    std::string id = run_id;
    id.back() = static_cast<char>('A' + i);
    record.header.run = id;
    testing::put(server.store(), {record});
  }
  std::set<std::string> seen;
  std::string path = "/api/v1/runs?limit=2";
  for (int page = 0; page < 3; ++page) {
    const auto runs = get(path);
    for (const auto& run : runs.at("items").as_array()) seen.insert(std::string(run.at("id").as_string()));
    if (!runs.at("next_cursor").is_string()) break;
    path = "/api/v1/runs?limit=2&cursor=" + std::string(runs.at("next_cursor").as_string());
  }
  EXPECT_EQ(seen.size(), 5u);
}

TEST_F(ApiTest, ExportsAllStoredSteps) {
  post({step_record(1, 1), step_record(2, 3)});
  Client client(server.port());
  const auto csv = client.get(run_path("/metrics.csv"));
  EXPECT_EQ(csv.status, 200);
  EXPECT_TRUE(csv.body.starts_with("rank,attempt,step,time_ms,epoch,loss,"));
  EXPECT_NE(csv.body.find("\n0,1,3,1795233600300,0,3.3333333333333335,"), std::string::npos);
  EXPECT_EQ(client.get(run_path("/metrics/loss?format=csv")).body,
            "step,time_ms,value\n1,1795233600100,10\n3,1795233600300,3.3333333333333335\n");
  EXPECT_EQ(get(run_path("/metrics/loss?x=wall&from=1795233600200")).at("total"), 1);
  EXPECT_EQ(get(run_path("/metrics/loss?to=2")).at("total"), 1);
}

TEST_F(ApiTest, ShowsTheRateOfAllRanksOrNone) {
  std::int64_t update = 0;
  const auto rate = [&](std::int64_t world_size, std::int64_t update_tokens) {
    ++update;
    LifecycleRecord started;
    started.event = "started";
    started.world_size = world_size;
    Record step = step_record(2 * update, update);
    std::get<StepRecord>(step.body).update_target_tokens = update_tokens;
    post({record_of(started, 2 * update - 1), step});
    return get(run_path()).at("target_tokens_per_second");
  };
  EXPECT_EQ(rate(2, 201), 2010);
  EXPECT_EQ(rate(2, 0), nullptr) << "an older worker's record has its own rank's tokens only";
  EXPECT_EQ(rate(1, 0), 1000);
}

TEST_F(ApiTest, NamesTheHostsOfTheCurrentAttempt) {
  for (const std::int64_t rank : {0, 1, 2}) post({step_record(1, 1, rank)});
  EXPECT_EQ(to_text(get(run_path()).at("hosts")), R"(["hostA","hostB"])");
  EXPECT_EQ(to_text(get("/api/v1/runs").at("items").at(0).at("hosts")), R"(["hostA","hostB"])");
  post({step_record(1, 2, 2, 2)});
  EXPECT_EQ(to_text(get(run_path()).at("hosts")), R"(["hostB"])");
  EXPECT_LT(get(run_path()).at("record_age_ms").as_int64(), 60'000);
}

TEST_F(ApiTest, ReturnsSeveralSeriesInOneResponse) {
  for (const std::int64_t rank : {0, 1})
    post({step_record(1, 1, rank), step_record(2, 2, rank), step_record(3, 3, rank)});
  const auto series = get(run_path("/series?keys=loss,target_tokens,target_tokens@1,not_yet&from=2"));
  const json::array& items = series.at("items").as_array();
  ASSERT_EQ(items.size(), 4u);
  EXPECT_EQ(items[0], get(run_path("/metrics/loss?from=2")));
  EXPECT_EQ(to_text(items[1].at("value")), "[201,201]");
  EXPECT_EQ(to_text(items[2].at("value")), "[101,101]");
  EXPECT_EQ(items[2].at("rank"), 1);
  EXPECT_EQ(to_text(items[3].at("step")), "[]");
  std::string many = "loss";
  for (int i = 0; i < 64; ++i) many += fmt::format(",key{}", i);
  for (const std::string& query : {std::string(), "keys=" + many, std::string("keys=loss@"),
                                   std::string("keys=loss@-1"), std::string("keys=loss&agg=raw")}) {
    EXPECT_EQ(Client(server.port()).get(run_path("/series?" + query)).status, 400) << query;
  }
}

}  // namespace
}  // namespace babelring
