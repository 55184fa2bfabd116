#include <gtest/gtest.h>

#include <algorithm>
#include <cctype>
#include <set>

#include "base/json.h"
#include "server/api/openapi.h"
#include "server/store/webhooks.h"
#include "tests/server/test_server.h"
#include "tests/soon.h"

namespace babelring {
namespace {

using http::Scope;
using testing::Client;

/// An operation of the contract.
struct Operation {
  std::string method, route, path;  // path: with ids of things that are there
  Scope scope = Scope::none;
  bool loopback_without_token = false;  // needs no token with --open-metrics, which the tests do not set
  bool operators_too = false;           // a token of scope operate suffices, too
};

/// Everything in the database as one text, but for the audit and for when tokens were last used.
std::string content(store::Store& store) {
  auto reader = store.reader();
  auto& database = reader->database;
  const auto tables =
      database.prepare("SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite%'")
          .all<std::string>();
  std::string text;
  for (const std::string& table : tables) {
    if (table == "audit") continue;
    const std::string row =
        database.scalar("SELECT group_concat('quote(\"' || name || '\")', '||') FROM pragma_table_info('" + table +
                        "') WHERE name <> 'used_ms'");
    text += table + ": " + database.scalar("SELECT group_concat(r) FROM (SELECT " + row + " AS r FROM " + table + ")");
  }
  return text;
}

class UnauthorisedTest : public ::testing::Test {
 protected:
  void SetUp() override {
    EvalRecord eval;
    eval.update = 1;
    eval.set = "valid";
    CheckpointRecord checkpoint;
    checkpoint.update = 1;
    checkpoint.name = "update-00000001";
    checkpoint.files = {{"model.safetensors", 1, std::string(64, '0')}};
    const ArtifactRecord artifact{.name = "probe-1.jsonl", .artifact = "probe"};
    const auto stored =
        testing::put(server.store(), {testing::step_record(1, 1), testing::record_of(eval, 2),
                                      testing::record_of(checkpoint, 3), testing::record_of(artifact, 4)});
    values = {{"run", testing::run_id},
              {"key", "loss"},
              {"eval", stored.fresh.at(1).id},
              {"checkpoint", stored.fresh.at(2).id},
              {"artifact", stored.fresh.at(3).id},
              {"name", "model.safetensors"},
              {"token", server.service().tokens.list().front().id},
              {"webhook", "w_01J8ZQ4T5W6X7Y8Z9A0B1C2D3E"},
              {"host", "hostA"}};
    server.store().write([](store::Database& database) {
      store::WebhookRow webhook;
      webhook.id = "w_01J8ZQ4T5W6X7Y8Z9A0B1C2D3E";
      webhook.kind = "json";
      store::add_webhook(database, webhook);
    });
    read_contract();
  }

  void read_contract() {
    const auto contract = parse_json(api::Contract().text()).value();
    for (const auto& [path, methods] : contract.at("paths").as_object()) {
      for (const auto& [method, operation] : methods.as_object()) {
        Operation found{std::string(method), std::string(path), fill(std::string(path)), Scope::read};
        std::transform(found.method.begin(), found.method.end(), found.method.begin(),
                       [](unsigned char c) { return std::toupper(c); });
        if (const auto* security = operation.as_object().if_contains("security")) {
          found.scope = Scope::none;
          if (!security->as_array().empty()) {
            const auto& roles = security->at(0).at("token").as_array();
            found.scope = http::scope_named(std::string(roles.at(0).as_string())).value();
            for (const json::value& other : security->as_array()) {
              found.loopback_without_token |= other.as_object().empty();
              found.operators_too |= found.scope == Scope::ingest && other == json::value{{"token", {"operate"}}};
            }
          }
        }
        operations.push_back(std::move(found));
      }
    }
  }

  /// Puts ids in the place of {names}.
  std::string fill(std::string path) {
    for (std::size_t at = 0; (at = path.find('{')) != std::string::npos;) {
      const std::size_t end = path.find('}', at);
      const auto value = values.find(path.substr(at + 1, end - at - 1));
      path.replace(at, end - at + 1, value == values.end() ? "x" : value->second);
    }
    return path;
  }

  int ask(const Operation& operation, const std::string& secret) {
    return Client(server.port(), secret).request(operation.method, operation.path, "{}").status;
  }

  /// A token that may do something, but not this.
  std::string too_weak(Scope needed) {
    if (needed == Scope::read) return tokens.at("ingest");
    return needed == Scope::admin ? tokens.at("operate") : tokens.at("read");
  }

  testing::TestServer server;
  std::map<std::string, std::string> values, tokens;
  std::vector<Operation> operations;
};

TEST_F(UnauthorisedTest, EveryRouteHasTheScopeThatTheContractSays) {
  for (const auto& route : api::route_table()) {
    const auto operation = std::find_if(operations.begin(), operations.end(), [&](const Operation& candidate) {
      return candidate.method == route.method && candidate.route == route.path;
    });
    if (operation == operations.end()) {
      ADD_FAILURE() << route.method << " " << route.path << " is not described";
      continue;
    }
    EXPECT_EQ(http::name_of(operation->scope), http::name_of(route.scope)) << route.method << " " << route.path;
    EXPECT_EQ(operation->loopback_without_token, route.options.loopback_without_token) << route.path;
    EXPECT_EQ(operation->operators_too, route.options.operators_too) << route.path;
    EXPECT_TRUE(route.scope != Scope::read || route.method == "GET" || route.method == "POST") << route.path;
  }
}

TEST_F(UnauthorisedTest, NobodyDoesWhatTheirTokenDoesNotAllow) {
  auto& book = server.service().tokens;
  for (const Scope scope : {Scope::read, Scope::ingest, Scope::operate}) {
    tokens[std::string(http::name_of(scope))] = server.token(scope);
  }
  const std::string expired = book.create({"expired", Scope::admin, "", 1, "test"}).secret;
  const std::string revoked = server.token(Scope::admin);
  ASSERT_TRUE(book.remove(book.identify(revoked)->token));
  std::string other_run = testing::run_id;
  other_run.back() = 'F';
  const std::string others = server.token(Scope::ingest, other_run);
  const std::string before = content(server.store());
  ASSERT_NE(before.find("tokens: "), std::string::npos);

  std::set<std::string> refused_writes;
  int asked = 0;
  for (const Operation& operation : operations) {
    SCOPED_TRACE(operation.method + " " + operation.path);
    if (operation.scope == Scope::none) {
      const int status = ask(operation, "");
      EXPECT_TRUE(status == 200 || status == 503) << status;
      EXPECT_EQ(operation.method, "GET") << "what needs no token must not write";
      continue;
    }
    EXPECT_EQ(ask(operation, ""), 401);
    EXPECT_EQ(ask(operation, "bbr_" + std::string(43, 'x')), 401);
    EXPECT_EQ(ask(operation, expired), 401);
    EXPECT_EQ(ask(operation, revoked), 401);
    EXPECT_EQ(ask(operation, too_weak(operation.scope)), 403);
    // "{}" is no evaluation: an operator gets as far as the body.
    if (operation.scope == Scope::ingest) {
      const int answer = ask(operation, tokens.at("operate"));
      EXPECT_EQ(answer, operation.operators_too ? 400 : 403);
      refused_writes.insert(operation.method + " " + operation.route + " " + std::to_string(answer));
    }
    EXPECT_EQ(ask(operation, others), 403);
    asked += 6;
    if (operation.method == "GET" || operation.scope == Scope::read) continue;
    for (const char* status : {" 401", " 403"})
      refused_writes.insert(operation.method + " " + operation.route + status);
  }
  EXPECT_GT(asked, 100);
  EXPECT_EQ(content(server.store()), before);

  std::set<std::string> noted;
  soon([&] {
    noted.clear();
    auto reader = server.store().reader();
    for (const auto& row : store::list_audit(*reader, {.limit = 10'000})) {
      noted.insert(row.method + " " + row.route + " " + std::to_string(row.status));
    }
    return noted.size() >= refused_writes.size();
  });
  EXPECT_EQ(noted, refused_writes);
}

TEST_F(UnauthorisedTest, ALinkToOneRunReadsThatRunAlone) {
  auto& book = server.service().tokens;
  const auto reader_of = [&](const std::string& run) {
    const std::string body =
        R"({"name": "link", "scope": "read", "run": ")" + run + R"(", "expires_in_seconds": 3600})";
    const auto made = Client(server.port()).request("POST", "/api/v1/tokens", body);
    EXPECT_EQ(made.status, 201) << made.body;
    return std::string(parse_json(made.body)->at("secret").as_string());
  };
  std::string other_run = testing::run_id;
  other_run.back() = 'F';
  const std::string own = reader_of(testing::run_id), other = reader_of(other_run);
  int shown = 0;
  for (const Operation& operation : operations) {
    SCOPED_TRACE(operation.method + " " + operation.path);
    if (operation.scope == Scope::none) continue;
    const bool self = operation.route == "/api/v1/tokens/self", eval = operation.route == "/api/v1/evals/{eval}";
    const bool reads_run = operation.scope == Scope::read && operation.route.starts_with("/api/v1/runs/{run}");
    EXPECT_EQ(ask(operation, other), self ? 200 : 403);
    const int status = ask(operation, own);
    if (self || eval || reads_run) {
      EXPECT_EQ(operation.method, "GET");
      EXPECT_TRUE(status != 401 && status != 403) << status;
      shown += status == 200 ? 1 : 0;
    } else {
      EXPECT_EQ(status, 403);
    }
  }
  EXPECT_GT(shown, 15);
  const std::string run = "/api/v1/runs/" + testing::run_id;
  for (const std::string& path :
       {run + "/comparison?with=" + other_run, "/api/v1/events?run=" + other_run, "/api/v1/alerts?run=" + other_run}) {
    EXPECT_EQ(Client(server.port(), own).request("GET", path, "").status, 403) << path;
  }
  EXPECT_EQ(Client(server.port(), own).request("GET", "/api/v1/alerts?run=" + testing::run_id, "").status, 200);
  book.remove_run_tokens(testing::run_id);  // those with which its ranks report
  EXPECT_EQ(Client(server.port(), own).request("GET", run, "").status, 200);
  ASSERT_TRUE(book.remove(book.identify(own)->token));
  EXPECT_EQ(Client(server.port(), own).request("GET", run, "").status, 401) << "revoked";
  for (const char* body : {R"({"name": "n", "scope": "read", "run": "RUN"})",
                           R"({"name": "n", "scope": "operate", "run": "RUN", "expires_in_seconds": 9})",
                           R"({"name": "n", "scope": "read", "run_prefix": "mt-", "expires_in_seconds": 9})"}) {
    std::string wrong = body;
    if (const auto at = wrong.find("RUN"); at != std::string::npos) wrong.replace(at, 3, testing::run_id);
    EXPECT_EQ(Client(server.port()).request("POST", "/api/v1/tokens", wrong).status, 400) << wrong;
  }
}

TEST_F(UnauthorisedTest, InjectedSqlFindsAndChangesNothing) {
  const auto contract = parse_json(api::Contract().text()).value();
  const std::string before = content(server.store());
  const std::vector<std::string> probes = {"'",
                                           "'%20OR%20'1'='1",
                                           "%22;%20DROP%20TABLE%20runs;--",
                                           "1;DELETE%20FROM%20runs",
                                           "%25",
                                           "%5C",
                                           "a%00b",
                                           "x'%20UNION%20SELECT%20secret--",
                                           "%F0%9F%92%A9",
                                           "-1",
                                           "9223372036854775808",
                                           std::string(1000, '%') + "25"};
  Client client(server.port());
  int asked = 0;
  const auto probe = [&](const std::string& path) {
    if (path.starts_with("/api/v1/events")) return;  // a stream without end where the value is taken
    const auto answer = Client(server.port()).get(path);
    EXPECT_TRUE(answer.status >= 200 && answer.status < 500) << path << ": " << answer.status;
    EXPECT_EQ(answer.body.find("SQL"), std::string::npos) << path;
    ++asked;
  };
  for (const auto& [template_path, methods] : contract.at("paths").as_object()) {
    const auto* get = methods.as_object().if_contains("get");
    if (get == nullptr) continue;
    const std::string path = fill(std::string(template_path));
    if (const auto* parameters = get->as_object().if_contains("parameters")) {
      for (const json::value& entry : parameters->as_array()) {
        const auto* reference = entry.as_object().if_contains("$ref");
        const json::value& parameter =
            reference == nullptr ? entry : contract.at_pointer(std::string(reference->as_string().subview(1)));
        if (parameter.at("in") != "query") continue;
        for (const std::string& value : probes)
          probe(path + "?" + std::string(parameter.at("name").as_string()) + "=" + value);
      }
    }
    const std::string text(template_path);
    if (const std::size_t at = text.find('{'); at != std::string::npos) {
      for (const std::string& value : probes) {
        std::string probed = text;
        probed.replace(at, probed.find('}') - at + 1, value);
        probe(fill(probed));
      }
    }
  }
  EXPECT_GT(asked, 200);
  EXPECT_EQ(content(server.store()), before);
  for (const char* query : {"'%20OR%20'1'='1", "%25'--", "%25", "_"}) {
    const auto runs = parse_json(client.get(std::string("/api/v1/runs?q=") + query).body).value();
    EXPECT_EQ(runs.at("items").as_array().size(), std::string_view(query) == "_" ? 1u : 0u) << query;  // r_…
  }
}

}  // namespace
}  // namespace babelring
