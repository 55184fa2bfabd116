#include "server/api/runs.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <functional>

#include "base/clock.h"
#include "base/json.h"
#include "base/records/resamples.h"
#include "tests/server/api_fixture.h"
#include "tests/server/client.h"
#include "tests/server/test_server.h"
#include "tests/soon.h"

namespace babelring {
namespace {

using testing::Client;
using testing::run_id;
using testing::step_record;

const std::string known_run_path = "/api/v1/runs/" + run_id;

json::object run_seen(Client& client) {
  const auto answer = client.get(known_run_path);
  EXPECT_EQ(answer.status, 200) << answer.body;
  return parse_json(answer.body).value().as_object();
}

http::Request asks_with(const std::string& etag) {
  http::Request request;
  request.headers["if-none-match"] = etag;
  return request;
}

std::string body_of(const http::Response& response) {
  return std::get<std::string>(response.body);
}

store::RunRow row_of_run() {
  store::RunRow run;
  run.id = run_id;
  run.state = store::RunState::running;
  run.name = R"(an odd","record_age_ms":5,"name)";
  run.config = "seed: 1\n";
  run.labels = R"({"record_age_ms":"old"})";
  run.updated_ms = 1'000'000;
  return run;
}

TEST(RunText, HasTheCurrentAgeForAnyRunName) {
  const store::RunRow run = row_of_run();
  const api::RunText text = api::run_text(run, {}, 1, 1'000'003);
  for (const std::int64_t age : {-7, 0, 3, 59'999}) {
    const auto body = parse_json(body_of(api::run_answer({}, text, run.updated_ms + age)));
    EXPECT_EQ(body->at("record_age_ms"), age);
    EXPECT_EQ(body->at("labels").at("record_age_ms"), "old");
    EXPECT_EQ(body->at("name").as_string(), run.name);
    EXPECT_EQ(body->at("config"), "seed: 1\n");
  }
}

TEST(RunText, HasATagThatChangesWithTheAge) {
  const api::RunText text = api::run_text(row_of_run(), {}, 1, 1'000'003);
  const auto first = api::run_answer({}, text, 1'000'004);
  const std::string etag(first.header("ETag"));
  const auto same = api::run_answer(asks_with(etag), text, 1'000'004);
  EXPECT_EQ(same.status, 304);
  EXPECT_EQ(body_of(same), "");
  EXPECT_EQ(same.header("ETag"), etag);
  EXPECT_EQ(api::run_answer(asks_with(etag.substr(0, etag.size() - 1) + "-gzip\""), text, 1'000'004).status, 304);
  const auto older = api::run_answer(asks_with(etag), text, 1'000'005);
  EXPECT_EQ(older.status, 200);
  EXPECT_NE(older.header("ETag"), etag);
}

TEST(RunTexts, AreValidForTheirRevisionAndUntilTheRunIsStale) {
  const store::RunRow run = row_of_run();
  api::RunTexts texts;
  texts.keep(run.id, api::run_text(run, {}, 7, 1'000'000));
  EXPECT_NE(texts.find(run.id, 7, 1'060'000), nullptr);
  EXPECT_EQ(texts.find(run.id, 7, 1'060'001), nullptr) << "it would still say that the run is not stale";
  EXPECT_EQ(texts.find(run.id, 8, 1'000'001), nullptr);
  EXPECT_EQ(texts.find("r_other", 7, 1'000'001), nullptr);
  texts.keep(run.id, api::run_text(run, {}, 7, 1'060'001));
  ASSERT_NE(texts.find(run.id, 7, 9'000'000), nullptr);
  EXPECT_TRUE(parse_json(body_of(api::run_answer({}, *texts.find(run.id, 7, 9'000'000), 9'000'000)))
                  ->at("stale_since")
                  .is_string());
}

TEST(RunTexts, TakeLittleMemory) {
  api::RunTexts texts;
  store::RunRow run = row_of_run();
  run.config.assign(api::RunTexts::max_bytes, 'x');
  texts.keep(run.id, api::run_text(run, {}, 1, 0));
  EXPECT_EQ(texts.find(run.id, 1, 0), nullptr);
  run.config.clear();
  std::size_t kept = 0;
  for (std::size_t i = 0; i < 3 * api::RunTexts::max_texts; ++i)
    texts.keep(std::to_string(i), api::run_text(run, {}, 1, 0));
  for (std::size_t i = 0; i < 3 * api::RunTexts::max_texts; ++i) kept += texts.find(std::to_string(i), 1, 0) != nullptr;
  EXPECT_LE(kept, api::RunTexts::max_texts);
  EXPECT_GT(kept, 0u);
}

TEST(RunAnswers, AreNeverOlderThanAcknowledgedRecords) {
  testing::TestServer server;
  Client client(server.port());
  for (std::int64_t update = 1; update <= 50; ++update) {
    ASSERT_EQ(testing::put(server.store(), {step_record(update, update)}).fresh.size(), 1u);
    for (int again = 0; again < 2; ++again) EXPECT_EQ(run_seen(client).at("update"), update);
  }
  ASSERT_EQ(client.request("PATCH", known_run_path, R"({"notes":"seen"})").status, 200);
  for (int again = 0; again < 2; ++again) EXPECT_EQ(run_seen(client).at("notes"), "seen");
  const auto before = run_seen(client).at("record_age_ms").as_int64();
  int more = 0;
  EXPECT_TRUE(soon([&] {
    ++more;
    return run_seen(client).at("record_age_ms").as_int64() >= before + 20;
  })) << "it grows older";
  // All are counted, cached or not.
  const std::string metrics = client.get("/metrics").body;
  const std::string line =
      fmt::format(R"(_seconds_count{{route="/api/v1/runs/{{run}}",method="GET",code="200"}} {})", 103 + more);
  EXPECT_NE(metrics.find(line), std::string::npos) << metrics;
}

TEST(RunAnswers, RequireScopeRead) {
  testing::TestServer server;
  testing::put(server.store(), {step_record(1, 1)});
  const auto made = server.service().tokens.create({"reader", http::Scope::read, "", std::nullopt, "test"});
  Client reader(server.port(), made.secret), nobody(server.port(), "");
  Client reporter(server.port(), server.token(http::Scope::ingest));
  for (int again = 0; again < 2; ++again) {
    run_seen(reader);
    EXPECT_EQ(nobody.get(known_run_path).status, 401);
    EXPECT_EQ(reporter.get(known_run_path).status, 403);
  }
  ASSERT_TRUE(server.service().tokens.remove(made.row.id));
  EXPECT_EQ(reader.get(known_run_path).status, 401) << "on the connection that was answered before";
  bool seen = false;
  for (std::int64_t ms = 500; !seen && ms < 60'000; ms *= 2) {  // longer, where it expired before it was first used
    const auto expiring =
        server.service().tokens.create({"expiring", http::Scope::read, "", wall_time_ms() + ms, "test"});
    Client brief(server.port(), expiring.secret);
    seen = brief.get(known_run_path).status == 200;
    EXPECT_TRUE(soon([&] { return brief.get(known_run_path).status == 401; }));
  }
  EXPECT_TRUE(seen);
}

TEST(RunAnswers, AreTheSameForHeadAndWhenPacked) {
  testing::TestServer server;
  testing::put(server.store(), {step_record(1, 1)});
  Client client(server.port());
  run_seen(client);
  client.send("HEAD " + known_run_path + " HTTP/1.1\r\nHost: localhost\r\n" + testing::authorization() + "\r\n");
  const auto head = client.receive(true);
  EXPECT_EQ(head.status, 200);
  EXPECT_GT(std::stoi(head.headers.at("content-length")), 300);
  LifecycleRecord started;
  started.event = "started";
  started.config.assign(2000, 'x');
  testing::put(server.store(), {testing::record_of(started, 2)});
  for (int again = 0; again < 2; ++again) {
    const auto packed = client.get(known_run_path, "Accept-Encoding: gzip\r\n");
    EXPECT_EQ(packed.headers.at("content-encoding"), "gzip");
    EXPECT_TRUE(packed.headers.at("etag").ends_with("-gzip\""));
  }
}

class RunComparisonTest : public testing::ApiFixture {
 protected:
  /// Reports a validation that is the best of its run, of made-up resamples about `bleu`.
  void report(
      const std::string& run, std::int64_t sequence, double bleu, std::string_view statistics,
      const std::function<void(EvalRecord&)>& change = [](EvalRecord&) {}) {
    EvalRecord eval{.update = 100 * sequence, .set = "valid", .loss = 3, .sacrebleu = bleu, .chrf = 50, .best = true};
    Resamples by{.metric = "BLEU", .signature = "tok:13a", .score = bleu};
    by.references = std::string(64, 'a');
    by.statistics = std::string(64, statistics[0]);
    for (int i = 0; i < 1000; ++i) by.scores.push_back(bleu + std::sin(i * bleu));
    eval.resamples = {by};
    change(eval);
    const std::string path = "/api/v1/runs/" + run + "/records";
    const auto answer = Client(server.port()).post(path, testing::batch_text({testing::record_of(eval, sequence)}));
    EXPECT_EQ(answer.status, status) << answer.body;
  }
  json::array items(const std::string& others) {
    return get(run_path("/comparison?with=" + others)).at("items").as_array();
  }
  std::string text(const std::string& other_run) {
    const json::array found = items(other_run);
    return found.empty() ? "nothing" : std::string(found[0].at("text").as_string());
  }
  static std::string with_end(char end) {
    std::string id = run_id;
    id.back() = end;
    return id;
  }
  const std::string better = with_end('F'), other = with_end('G');
  int status = 200;
};

TEST_F(RunComparisonTest, SaysTheDifferenceOfTheBestValidations) {
  report(run_id, 1, 30.9, "1");
  report(run_id, 2, 31, "2");
  report(better, 1, 31.5, "3");
  const json::array found = items(better);
  ASSERT_EQ(found.size(), 1U);
  const json::object& item = found[0].as_object();
  EXPECT_EQ(item.at("run").as_string(), better);
  EXPECT_EQ(item.at("metric"), "BLEU");
  EXPECT_EQ(item.at("difference"), 0.5);
  EXPECT_EQ(to_text(item.at("baseline")), R"({"update":200,"score":31})") << "the newest best";
  EXPECT_EQ(to_text(item.at("best")), R"({"update":100,"score":31.5})");
  std::vector<double> base, own;
  for (int i = 0; i < 1000; ++i) {
    base.push_back(31 + std::sin(i * 31.0));
    own.push_back(31.5 + std::sin(i * 31.5));
  }
  const double p = paired_p_value(own, base, 0.5);
  EXPECT_EQ(item.at("p_value"), p) << "no bit is lost on the way";
  EXPECT_EQ(item.at("text").as_string(), fmt::format("0.50 BLEU better than {} (p = {:.2f})", run_id, p));
  EXPECT_FALSE(get(run_path("/evals")).at("items").at(0).as_object().contains("resamples"));
}

TEST_F(RunComparisonTest, EqualRunsAreEqual) {
  report(run_id, 1, 31, "1");
  EXPECT_EQ(text(run_id), "equal to " + run_id + " in BLEU");
  report(better, 1, 31, "1");
  EXPECT_EQ(text(better), "equal to " + run_id + " in BLEU");
  EXPECT_EQ(items(better)[0].at("equal"), true);
  EXPECT_TRUE(items(better)[0].at("p_value").is_null());
}

TEST_F(RunComparisonTest, OtherTextsAndOlderWorkersDoNotCompare) {
  report(run_id, 1, 31, "1");
  report(better, 1, 30, "2", [](EvalRecord& eval) { eval.resamples[0].references = std::string(64, 'b'); });
  EXPECT_EQ(text(better), "not comparable: other validation set");
  EXPECT_EQ(items(better)[0].at("comparable"), false);
  EXPECT_TRUE(items(better)[0].at("difference").is_null());
  report(better, 2, 30, "2", [](EvalRecord& eval) { eval.resamples[0].signature = "tok:zh"; });
  EXPECT_EQ(text(better), "not comparable: other signature, tok:zh and tok:13a");
  report(other, 1, 30, "2", [](EvalRecord& eval) { eval.resamples.clear(); });
  EXPECT_EQ(text(other), "not comparable: " + other + " has no resamples of its best validation");
  report(other, 2, 30, "2", [](EvalRecord& eval) {
    eval.resamples.clear();
    eval.sacrebleu = std::nan("");
  });
  EXPECT_EQ(items(better + "," + other).size(), 1U) << "nothing is said of a run that does not translate";
}

TEST_F(RunComparisonTest, AnAddedEvaluationIsComparedWithTheBest) {
  report(run_id, 1, 31, "1");
  Client client(server.port());
  const auto add = [&](const std::string& run, double bleu, char statistics, const std::string& set = "valid",
                       char references = 'a') {
    json::array scores;
    for (int i = 0; i < 1000; ++i) scores.emplace_back(bleu + std::sin(i * bleu));
    const json::object by = {{"metric", "BLEU"},
                             {"signature", "tok:13a"},
                             {"references", std::string(64, references)},
                             {"statistics", std::string(64, statistics)},
                             {"score", bleu},
                             {"scores", std::move(scores)}};
    const json::object body = {
        {"update", 50}, {"set", set}, {"sacrebleu", bleu}, {"signature", "tok:13a"}, {"resamples", json::array{by}}};
    const auto answer = client.post("/api/v1/runs/" + run + "/evals", to_text(body));
    EXPECT_EQ(answer.status, 201) << answer.body;
    return parse_json(answer.body)->get_object();
  };
  const json::object worse = add(run_id, 30.5, '2');
  EXPECT_EQ(worse.at("best_before"), 100);
  EXPECT_EQ(worse.at("bleu_above_best"), -0.5);
  std::vector<double> own, base;
  for (int i = 0; i < 1000; ++i) {
    own.push_back(30.5 + std::sin(i * 30.5));
    base.push_back(31 + std::sin(i * 31.0));
  }
  EXPECT_EQ(worse.at("p_value"), paired_p_value(own, base, 0.5));
  EXPECT_FALSE(worse.contains("resamples"));
  EXPECT_EQ(add(run_id, 31, '1').at("p_value").to_number<double>(), p_of_equals);
  EXPECT_FALSE(add(run_id, 30, '2', "test", 'b').contains("p_value")) << "other texts";
  report(other, 1, 31, "1");
  EXPECT_EQ(text(other), "equal to " + run_id + " in BLEU") << "an added one is not the best of a run that validates";
  const auto wrong = client.post(run_path("/evals"), R"({"update":1,"set":"v","resamples":[{"metric":"BLEU"}]})");
  EXPECT_EQ(wrong.status, 400);
  EXPECT_EQ(parse_json(wrong.body)->at("errors").at(0).at("pointer").as_string(), "/resamples/0/signature");
}

TEST_F(RunComparisonTest, TheBestOfAddedEvaluationsIsKept) {
  Client client(server.port());
  report(better, 1, 30, "3", [](EvalRecord& eval) { eval.set = "own"; });
  LifecycleRecord started;
  started.event = "started";
  testing::put(server.store(), {testing::record_of(started, 1)});
  const auto add = [&](double bleu, const std::string& set) {
    const json::object by = {{"metric", "BLEU"},
                             {"signature", "tok:13a"},
                             {"references", std::string(64, 'a')},
                             {"statistics", fmt::format("{:064}", static_cast<int>(bleu * 10))},
                             {"score", bleu},
                             {"scores", json::array{bleu, bleu + 1}}};
    const json::object body = {{"update", static_cast<int>(bleu)},
                               {"set", set},
                               {"sacrebleu", bleu},
                               {"signature", "tok:13a"},
                               {"resamples", json::array{by}}};
    return parse_json(client.post(run_path("/evals"), to_text(body)).body)->get_object();
  };
  EXPECT_FALSE(add(20, "valid").contains("bleu_above_best"));
  EXPECT_EQ(add(22, "valid").at("bleu_above_best"), 2);
  EXPECT_EQ(add(21, "valid").at("best_before"), 22);
  EXPECT_EQ(add(40, "test").at("best_before"), 22);
  EXPECT_EQ(add(23, "valid").at("best_before"), 22) << "one on another set is not the best";
}

TEST_F(RunComparisonTest, RefusesWrongRequestsAndRecords) {
  report(run_id, 1, 31, "1");
  Client client(server.port());
  EXPECT_EQ(client.get(run_path("/comparison")).status, 400);
  EXPECT_EQ(client.get(run_path("/comparison?with=r_1")).status, 404);
  EXPECT_EQ(client.get("/api/v1/runs/" + better + "/comparison?with=" + run_id).status, 404);
  status = 422;
  report(better, 1, 30, "x");
  report(better, 1, 30, "1", [](EvalRecord& eval) { eval.resamples[0].scores.resize(1001); });
  report(better, 1, 30, "1", [](EvalRecord& eval) { eval.resamples[0].scores.clear(); });
  report(better, 1, 30, "1", [](EvalRecord& eval) { eval.resamples[0].metric = "a\nb"; });
  report(better, 1, 30, "1", [](EvalRecord& eval) { eval.resamples.resize(5, eval.resamples[0]); });
}

}  // namespace

}  // namespace babelring
