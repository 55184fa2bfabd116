#include "server/api/openapi.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cctype>
#include <set>

#include "nmt/base/json.h"
#include "tests/server/client.h"
#include "tests/server/test_server.h"

namespace babelring {
namespace {

const json::object& resolve(const json::value& contract, const json::object& schema) {
  const auto* reference = schema.if_contains("$ref");
  if (reference == nullptr) return schema;
  std::string pointer(reference->as_string().subview(1));
  return contract.at_pointer(pointer).as_object();
}

/// Are all required members there, and none that the contract does not name?
void check_object(const json::value& contract, const json::object& schema, const json::object& found) {
  for (const auto& name : resolve(contract, schema).at("required").as_array()) {
    EXPECT_TRUE(found.contains(name.as_string())) << name;
  }
  for (const auto& [name, value] : found) {
    EXPECT_TRUE(resolve(contract, schema).at("properties").as_object().contains(name)) << name;
  }
}

TEST(OpenApi, NamesEveryRouteAndNoOther) {
  testing::TestServer server;
  api::Service service{server.store(), server.events(), {}};
  std::set<std::string> routes, described;
  const http::Router router = api::make_router(service);
  for (const auto& route : router.routes()) routes.insert(route.method + " " + route.path);
  const auto contract = parse_json(api::openapi_json()).value();
  for (const auto& [path, methods] : contract.at("paths").as_object()) {
    for (const auto& [method, operation] : methods.as_object()) {
      std::string name(method);
      std::transform(name.begin(), name.end(), name.begin(), [](unsigned char c) { return std::toupper(c); });
      described.insert(name + " " + std::string(path));
    }
  }
  EXPECT_EQ(routes, described);
}

TEST(OpenApi, DescribesWhatIsAnswered) {
  testing::TestServer server;
  EvalRecord eval;
  eval.update = 1;
  eval.set = "valid";
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
  check(run + "/ranks", "RankPage");
  check(run + "/logs", "LogPage");
  check(run + "/checkpoints", "CheckpointPage");
  check("/api/v1/checkpoints/" + stored.fresh.at(2).id, "Checkpoint");
  check("/api/v1/nothing", "Problem");
}

}  // namespace
}  // namespace babelring
