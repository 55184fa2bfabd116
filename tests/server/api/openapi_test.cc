#include "server/api/openapi.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cctype>
#include <chrono>
#include <limits>
#include <set>

#include "base/json.h"
#include "server/alerts/alert_watch.h"
#include "tests/server/client.h"
#include "tests/server/test_server.h"
#include "tests/soon.h"

namespace babelring {
namespace {

const json::object& resolve(const json::value& contract, const json::object& schema) {
  const auto* reference = schema.if_contains("$ref");
  if (reference == nullptr) return schema;
  std::string pointer(reference->as_string().subview(1));
  return contract.at_pointer(pointer).as_object();
}

/// Whether all required members are present and no undocumented ones.
void check_object(const json::value& contract, const json::object& schema, const json::object& found) {
  for (const auto& name : resolve(contract, schema).at("required").as_array()) {
    EXPECT_TRUE(found.contains(name.as_string())) << name;
  }
  for (const auto& [name, value] : found) {
    EXPECT_TRUE(resolve(contract, schema).at("properties").as_object().contains(name)) << name;
  }
}

TEST(OpenApi, ListsExactlyTheRoutes) {
  std::set<std::string> routes, described;
  for (const auto& entry : api::route_table()) routes.insert(fmt::format("{} {}", entry.method, entry.path));
  const auto contract = parse_json(api::Contract().text()).value();
  for (const auto& [path, methods] : contract.at("paths").as_object()) {
    for (const auto& [method, operation] : methods.as_object()) {
      std::string name(method);
      std::transform(name.begin(), name.end(), name.begin(), [](unsigned char c) { return std::toupper(c); });
      described.insert(name + " " + std::string(path));
    }
  }
  EXPECT_EQ(routes, described);
}

TEST(OpenApi, DescribesTheResponses) {
  testing::TestServer server;
  EvalRecord eval;
  eval.update = 1;
  eval.set = "valid";
  eval.sacrebleu = 20, eval.best = true, eval.best_before = 1, eval.above_best = {.difference = 1, .p_value = 0.5};
  eval.resamples = {{.metric = "BLEU", .scores = {20}}};
  CheckpointRecord checkpoint;
  checkpoint.update = 1;
  checkpoint.name = "update-00000001";
  LogRecord log;
  log.level = "info";
  const auto stored = testing::put(server.store(), {testing::step_record(1, 1), testing::record_of(eval, 2),
                                                    testing::record_of(checkpoint, 3), testing::record_of(log, 4)});
  testing::Client client(server.port());
  const auto contract = parse_json(client.get("/api/v1/openapi.json").body).value();
  const auto check = [&](const std::string& path, const std::string& schema) {
    SCOPED_TRACE(path);
    const auto answer = parse_json(client.get(path).body).value();
    const json::object& described = contract.at_pointer("/components/schemas/" + schema).as_object();
    check_object(contract, described, answer.as_object());
    if (!answer.as_object().contains("items")) return;
    ASSERT_FALSE(answer.at("items").as_array().empty());
    const auto& items = described.at("properties").at("items").at("items").as_object();
    check_object(contract, items, answer.at("items").at(0).as_object());
  };
  const std::string run = "/api/v1/runs/" + testing::run_id;
  check("/healthz", "Alive");
  check("/readyz", "Ready");
  check("/api/v1/version", "Version");
  check("/api/v1/runs", "RunPage");
  check(run, "Run");
  check(run + "/metrics", "KeyPage");
  check(run + "/metrics/loss", "Series");
  check(run + "/series?keys=loss", "SeriesPage");
  check(run + "/evals", "EvalPage");
  check("/api/v1/evals/" + stored.fresh.at(1).id, "Eval");
  check(run + "/comparison?with=" + testing::run_id, "RunComparison");
  check(run + "/ranks", "RankPage");
  check(run + "/logs", "LogPage");
  check(run + "/checkpoints", "CheckpointPage");
  check("/api/v1/checkpoints/" + stored.fresh.at(2).id, "Checkpoint");
  check("/api/v1/nothing", "Problem");
}

TEST(OpenApi, ServesQuotedNumbersAsStrings) {
  testing::TestServer server;
  testing::Client client(server.port());
  const auto contract = parse_json(client.get("/api/v1/openapi.json").body).value();
  const std::string schemas = "/components/schemas/";
  EXPECT_EQ(contract.at_pointer(schemas + "AlertKind/enum/0"), "nan");
  const json::array kinds = {"nan", "inf", "-inf"};
  EXPECT_EQ(contract.at_pointer(schemas + "NonFinite/items/properties/kind/enum"), kinds);
  EXPECT_EQ(contract.at_pointer(schemas + "Series/properties/non_finite/$ref"), "#/components/schemas/NonFinite");
}

TEST(OpenApi, RefusesNonFiniteNumbers) {
  for (const std::string word : {"nan", "inf", "-inf", "infinity", "1e999"}) {
    SCOPED_TRACE(word);
    try {
      api::parse_contract("a: 1\nb: [x, " + word + "]\n");
      FAIL() << "taken";
    } catch (const Failure& failure) {
      EXPECT_EQ(std::string(failure.what()), "openapi.yaml, line 2: " + word + " is not finite: quote it");
    }
  }
}

/// tests/contract validates these responses against the contract, including non_finite and null.
TEST(OpenApi, DescribesRunsWithNonFiniteNumbers) {
  testing::TestServer server;
  alerts::AlertWatch watch(server.store(), {}, server.alert_publisher(), std::chrono::milliseconds(20));
  constexpr double infinity = std::numeric_limits<double>::infinity(), nan = std::numeric_limits<double>::quiet_NaN();
  std::vector<Record> records;
  for (const double loss : {nan, infinity, -infinity, 3.0}) {
    const auto number = static_cast<std::int64_t>(records.size()) + 1;
    Record step = testing::step_record(number, number);
    std::get<StepRecord>(step.body).loss = loss;
    records.push_back(std::move(step));
  }
  EvalRecord eval{.update = 4, .set = "valid"};
  eval.loss = nan, eval.nll = infinity, eval.sacrebleu = nan;
  CheckpointRecord checkpoint{.update = 4, .name = "update-00000004"};
  checkpoint.write_seconds = infinity;
  LogRecord log{.level = "warn", .text = "loss is not finite"};
  records.push_back(testing::record_of(eval, 5));
  records.push_back(testing::record_of(checkpoint, 6));
  records.push_back(testing::record_of(log, 7));
  const auto stored = testing::put(server.store(), records);
  ASSERT_EQ(stored.fresh.size(), records.size());
  for (const Record& record : records) watch.observe(record);  // once they are stored: it forgets runs that are not

  testing::Client client(server.port());
  const auto get = [&](const std::string& path) {
    const testing::Answer answer = client.get("/api/v1" + path);
    EXPECT_EQ(answer.status, 200) << path << answer.body;
    return parse_json(answer.body).value();
  };
  const std::string run = "/runs/" + testing::run_id;
  EXPECT_EQ(get(run + "/metrics/loss").at_pointer("/non_finite/0/kind"), "nan");
  EXPECT_EQ(get(run + "/series?keys=loss").at_pointer("/items/0/non_finite/2/kind"), "-inf");
  const std::string query = R"({"keys":["loss"],"runs":[")" + testing::run_id + R"("]})";
  const auto compared = parse_json(client.post("/api/v1/metrics/query", query).body).value();
  EXPECT_EQ(compared.at_pointer("/items/0/non_finite/1/kind"), "inf");
  EXPECT_TRUE(get(run + "/evals").at_pointer("/items/0/loss").is_null());
  EXPECT_TRUE(get("/evals/" + stored.fresh.at(4).id).at("nll").is_null());
  EXPECT_EQ(get(run + "/checkpoints").at("items").as_array().size(), 1u);
  EXPECT_EQ(get(run + "/logs").at("items").as_array().size(), 1u);
  for (const char* part : {"", "/metrics", "/ranks", "/verdict", "/transitions", "/attempts", "/retention"})
    get(run + part);
  get("/runs");
  EXPECT_EQ(get("/alert-rules").at_pointer("/items/0/kind"), "nan");
  EXPECT_EQ(
      client.request("PUT", "/api/v1/alert-rules", R"({"items":[{"name":"n","kind":"nan","threshold":2}]})").status,
      200);
  EXPECT_TRUE(soon([&] { return !get("/alerts").at("items").as_array().empty(); }));
}

}  // namespace
}  // namespace babelring
