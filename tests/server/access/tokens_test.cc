#include <gtest/gtest.h>

#include <set>
#include <thread>

#include "base/clock.h"
#include "base/digest.h"
#include "base/json.h"
#include "server/access/token_service.h"
#include "server/http/reply.h"
#include "tests/server/test_server.h"
#include "tests/soon.h"

namespace babelring {
namespace {

using http::Scope;
using testing::Client;

class TokensTest : public ::testing::Test {
 protected:
  json::value json_of(const testing::Answer& answer) { return parse_json(answer.body).value(); }
  /// Creates a token by the API.
  json::value make(const std::string& body) {
    const auto answer = Client(server.port()).post("/api/v1/tokens", body);
    EXPECT_EQ(answer.status, 201) << answer.body;
    return json_of(answer);
  }
  int status(const std::string& secret, const std::string& path = "/api/v1/runs") {
    return Client(server.port(), secret).get(path).status;
  }
  testing::TestServer server;
};

TEST_F(TokensTest, ShowTheSecretOnceAndStoreOnlyItsDigest) {
  const auto made = make(R"({"name":"laptop","scope":"read","expires_in_seconds":3600})");
  const std::string secret(made.at("secret").as_string()), id(made.at("id").as_string());
  EXPECT_EQ(secret.size(), 4u + 43u);
  EXPECT_EQ(status(secret), 200);
  const auto listed = Client(server.port()).get("/api/v1/tokens");
  EXPECT_EQ(listed.body.find(secret), std::string::npos);
  const auto page = json_of(listed);
  const auto& item = page.at("items").at(1);
  EXPECT_EQ(item.at("id").as_string(), id);
  EXPECT_EQ(item.at("created_by"), "test admin");
  EXPECT_TRUE(item.at("last_used_at").is_string());
  EXPECT_TRUE(item.at("expires_at").is_string());
  auto reader = server.store().reader();
  EXPECT_EQ(reader->database.scalar("SELECT hash FROM tokens WHERE name = 'laptop'"), sha256_hex(secret));
}

TEST_F(TokensTest, AreValidUntilRevokedAlsoAfterARestart) {
  const auto made = make(R"({"name":"reader","scope":"read"})");
  const std::string secret(made.at("secret").as_string()),
      path = "/api/v1/tokens/" + std::string(made.at("id").as_string());
  server.restart();
  EXPECT_EQ(status(secret), 200);
  EXPECT_EQ(Client(server.port()).request("DELETE", path).status, 204);
  EXPECT_EQ(status(secret), 401);
  EXPECT_EQ(Client(server.port()).request("DELETE", path).status, 404);
  server.restart();
  EXPECT_EQ(status(secret), 401);
}

TEST_F(TokensTest, DescribeThemselves) {
  const auto made = make(R"({"name":"shift","scope":"operate","expires_in_seconds":3600})");
  const std::string secret(made.at("secret").as_string());
  const auto answer = Client(server.port(), secret).get("/api/v1/tokens/self");
  EXPECT_EQ(answer.status, 200);
  const auto self = json_of(answer);
  EXPECT_EQ(self.at("id"), made.at("id"));
  EXPECT_EQ(self.at("name"), "shift");
  EXPECT_EQ(self.at("scope"), "operate");
  EXPECT_EQ(self.at("expires_at"), made.at("expires_at"));
  EXPECT_EQ(answer.body.find(secret), std::string::npos);
}

TEST_F(TokensTest, ExpireByTheWallClock) {
  auto& book = server.service().tokens;
  const auto late = book.create({"late", Scope::read, "", wall_time_ms() - 1, "test"}).secret;
  EXPECT_EQ(status(late), 401);
  const auto valid = book.create({"valid", Scope::read, "", wall_time_ms() + 3'600'000, "test"}).secret;
  EXPECT_EQ(status(valid), 200);
  const auto brief = book.create({"brief", Scope::read, "", wall_time_ms() + 300, "test"}).secret;
  EXPECT_TRUE(soon([&] { return !book.identify(brief); }));
  EXPECT_EQ(status(brief), 401);
}

TEST_F(TokensTest, EndTheirStreamsWhenRevoked) {
  http::Limits limits;
  limits.heartbeat = std::chrono::milliseconds(50);
  testing::TestServer quick(limits);
  const auto made = quick.service().tokens.create({"viewer", Scope::read, "", std::nullopt, "test"});
  Client stream(quick.port());
  stream.send("GET /api/v1/events HTTP/1.1\r\nHost: localhost\r\n" + testing::authorization(made.secret) + "\r\n");
  stream.read_until("retry");
  EXPECT_TRUE(quick.service().tokens.remove(made.row.id));
  EXPECT_TRUE(stream.closed());
}

TEST_F(TokensTest, PermitExactlyTheirScope) {
  EXPECT_TRUE(http::covers(Scope::admin, Scope::ingest));
  EXPECT_TRUE(http::covers(Scope::operate, Scope::read));
  EXPECT_FALSE(http::covers(Scope::operate, Scope::ingest));
  EXPECT_FALSE(http::covers(Scope::operate, Scope::admin));
  EXPECT_FALSE(http::covers(Scope::ingest, Scope::read));
  EXPECT_FALSE(http::covers(Scope::read, Scope::operate));
}

TEST_F(TokensTest, RefusesATokenOfAnotherRun) {
  auto& book = server.service().tokens;
  const std::string secret = book.create_run_token(testing::run_id);
  const auto batch = testing::batch_text({testing::step_record(1, 1)});
  EXPECT_EQ(Client(server.port(), secret).post(testing::records_path(), batch).status, 200);
  std::string other = testing::records_path();
  other.replace(other.find(testing::run_id) + 27, 1, "F");
  const auto refused = Client(server.port(), secret).post(other, batch);
  EXPECT_EQ(refused.status, 403);
  EXPECT_EQ(json_of(refused).at("code"), "run_forbidden");
  EXPECT_EQ(status(secret), 403);
  book.remove_run_tokens(testing::run_id);
  EXPECT_EQ(Client(server.port(), secret).post(testing::records_path(), batch).status, 401);
}

TEST_F(TokensTest, AreRefusedWithAReason) {
  Client client(server.port(), "");
  const auto missing = client.get("/api/v1/runs");
  EXPECT_EQ(missing.status, 401);
  EXPECT_EQ(missing.headers.at("www-authenticate"), "Bearer realm=\"babelring\"");
  EXPECT_EQ(json_of(missing).at("code"), "token_missing");
  for (const std::string field :
       {"Authorization: Bearer x\r\n", "Authorization: Basic eDp5\r\n", "Authorization: Bearer\r\n",
        "Authorization: Bearer a\r\nAuthorization: Bearer b\r\n"}) {
    const auto wrong = client.get("/api/v1/runs", field);
    EXPECT_EQ(wrong.status, 401) << field;
    EXPECT_NE(wrong.headers.at("www-authenticate").find("invalid_token"), std::string::npos) << field;
  }
  EXPECT_EQ(client.get("/api/v1/runs", "authorization: bearer " + testing::admin_secret + "\r\n").status, 200);
  const auto weak = Client(server.port(), server.token(Scope::read)).get("/api/v1/audit");
  EXPECT_EQ(weak.status, 403);
  EXPECT_NE(weak.headers.at("www-authenticate").find("scope=\"admin\""), std::string::npos);
}

TEST_F(TokensTest, RefuseInvalidRequests) {
  const auto check = [&](const std::string& body, const std::string& pointer) {
    const auto answer = Client(server.port()).post("/api/v1/tokens", body);
    EXPECT_EQ(answer.status, 400) << body;
    if (pointer.empty()) return;
    EXPECT_EQ(json_of(answer).at("errors").at(0).at("pointer").as_string(), pointer) << body;
  };
  check("", "");
  check("[]", "");
  check(R"({"scope":"read"})", "/name");
  check(R"({"name":"","scope":"read"})", "/name");
  check(R"({"name":"x","scope":"root"})", "/scope");
  check(R"({"name":"x","scope":7})", "/scope");
  check(R"({"name":"x","scope":"read","run":"r_01J8ZQ4T5W6X7Y8Z9A0B1C2D3E"})", "/expires_in_seconds");
  check(R"({"name":"x","scope":"operate","run":"r_01J8ZQ4T5W6X7Y8Z9A0B1C2D3E","expires_in_seconds":9})", "/run");
  check(R"({"name":"x","scope":"ingest","run":"../x"})", "/run");
  check(R"({"name":"x","scope":"ingest"})", "/run");
  check(R"({"name":"x","scope":"ingest","any_run":false})", "/run");
  check(R"({"name":"x","scope":"ingest","any_run":true,"run_prefix":"a"})", "/run");
  check(R"({"name":"x","scope":"ingest","run_prefix":""})", "/run");
  check(R"({"name":"x","scope":"operate","run_prefix":"a"})", "/run_prefix");
  check(R"({"name":"x","scope":"admin","any_run":true})", "/any_run");
  check(R"({"name":"x","scope":"read","expires_in_seconds":0})", "/expires_in_seconds");
  check(R"({"name":"x","scope":"read","expires_in_seconds":1.5})", "/expires_in_seconds");
  check(R"({"name":"x","scope":"read","surprise":1})", "/surprise");
  EXPECT_EQ(json_of(Client(server.port()).get("/api/v1/tokens")).at("items").as_array().size(), 1u);
}

TEST_F(TokensTest, LimitsReportersToTheirRuns) {
  const auto bound = make(R"({"name":"one","scope":"ingest","run":"r_01J8ZQ4T5W6X7Y8Z9A0B1C2D3E"})");
  EXPECT_EQ(bound.at("run"), "r_01J8ZQ4T5W6X7Y8Z9A0B1C2D3E");
  EXPECT_TRUE(bound.at("run_prefix").is_null());
  const auto prefix = make(R"({"name":"some","scope":"ingest","run_prefix":"mt-"})");
  EXPECT_TRUE(prefix.at("run").is_null());
  EXPECT_EQ(prefix.at("run_prefix"), "mt-");
  const auto any = make(R"({"name":"any","scope":"ingest","any_run":true})");
  EXPECT_TRUE(any.at("run").is_null());
  EXPECT_TRUE(any.at("run_prefix").is_null());
  server.restart();
  const auto caller = server.service().tokens.identify(prefix.at("secret").as_string());
  ASSERT_TRUE(caller);
  EXPECT_EQ(caller->run_prefix, "mt-");
  EXPECT_EQ(json_of(Client(server.port()).get("/api/v1/tokens")).at("items").at(2).at("run_prefix"), "mt-");
}

TEST_F(TokensTest, RefuseNamesWithControlCharacters) {
  const auto answer = Client(server.port()).post("/api/v1/tokens", R"({"name":"a\u0000b","scope":"read"})");
  EXPECT_EQ(answer.status, 422);
  EXPECT_EQ(json_of(answer).at("code"), "text_refused");
  EXPECT_EQ(json_of(answer).at("errors").at(0).at("pointer"), "/name");
}

TEST_F(TokensTest, KeepTheLastAdministrator) {
  const auto items = json_of(Client(server.port()).get("/api/v1/tokens")).at("items");
  const std::string first = "/api/v1/tokens/" + std::string(items.at(0).at("id").as_string());
  const auto refused = Client(server.port()).request("DELETE", first);
  EXPECT_EQ(refused.status, 409);
  EXPECT_EQ(json_of(refused).at("code"), "last_admin");
  make(R"({"name":"second","scope":"admin"})");
  EXPECT_EQ(Client(server.port()).request("DELETE", first).status, 204);
  EXPECT_EQ(status(testing::admin_secret), 401);
}

TEST_F(TokensTest, KeepTheLastAdministratorIfTwoAreRemovedAtOnce) {
  auto& book = server.service().tokens;
  const auto remove = [&](const std::string& id) {
    try {
      book.remove(id);
    } catch (const http::Problem& problem) {
      EXPECT_EQ(problem.code(), "last_admin");
    }
  };
  std::string survivor = book.list().at(0).id;
  for (int round = 0; round < 20; ++round) {
    const std::string other = book.create({"other", Scope::admin, "", std::nullopt, "test"}).row.id;
    std::thread beside([&] { remove(survivor); });
    remove(other);
    beside.join();
    ASSERT_EQ(book.list().size(), 1u) << "round " << round;
    survivor = book.list().at(0).id;
  }
}

TEST_F(TokensTest, AreListedInPages) {
  for (int i = 0; i < 4; ++i) server.token(Scope::read);
  std::string path = "/api/v1/tokens?limit=2";
  std::set<std::string> seen;
  for (int page = 0; page < 3; ++page) {
    const auto answer = json_of(Client(server.port()).get(path));
    for (const auto& item : answer.at("items").as_array()) seen.insert(std::string(item.at("id").as_string()));
    if (answer.at("next_cursor").is_null()) break;
    path = "/api/v1/tokens?limit=2&cursor=" + std::string(answer.at("next_cursor").as_string());
  }
  EXPECT_EQ(seen.size(), 5u);
}

TEST(TokenService, CreatesTheFirstAdministratorOnce) {
  testing::TemporaryFolder folder;
  store::Store store(folder.path());
  std::optional<std::string> secret;
  {
    access::TokenService book(store);
    secret = book.first_admin();
    ASSERT_TRUE(secret);
    EXPECT_EQ(book.identify(*secret)->scope, Scope::admin);
    EXPECT_FALSE(book.first_admin());
  }
  access::TokenService again(store);
  EXPECT_FALSE(again.first_admin());
  EXPECT_TRUE(again.identify(*secret));
  EXPECT_TRUE(again.list().at(0).used_ms);  // saved at the end
}

}  // namespace
}  // namespace babelring
