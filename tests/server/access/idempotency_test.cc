#include "server/access/idempotency.h"

#include "base/clock.h"
#include "base/digest.h"
#include "server/http/reply.h"
#include "server/store/access.h"
#include "tests/server/access/audit_fixture.h"

namespace babelring {
namespace {

using http::Scope;
using testing::Client;

class IdempotencyTest : public AuditTest {
 protected:
  testing::Answer post(const std::string& content, const std::string& key = "Idempotency-Key: k-1\r\n") {
    return Client(server.port()).post("/api/v1/tokens", content, key);
  }
  std::size_t tokens() { return server.service().tokens.list().size(); }
  const std::string body = R"({"name":"x","scope":"read"})";
};

TEST_F(IdempotencyTest, ReplaysTheFirstResponse) {
  const auto first = post(body), second = post(body), quoted = post(body, "Idempotency-Key: \"k-1\"\r\n");
  EXPECT_EQ(first.status, 201);
  EXPECT_FALSE(first.headers.contains("idempotency-replayed"));
  EXPECT_EQ(second.status, 201);
  EXPECT_EQ(second.headers.at("idempotency-replayed"), "true");
  EXPECT_EQ(second.headers.at("location"), first.headers.at("location"));
  EXPECT_EQ(json_of(second).at("id"), json_of(first).at("id"));
  EXPECT_TRUE(json_of(first).at("secret").is_string());
  EXPECT_TRUE(json_of(second).at("secret").is_null());  // it is not stored
  EXPECT_EQ(quoted.body, second.body);
  server.restart();
  EXPECT_EQ(post(body).body, second.body);
  EXPECT_EQ(tokens(), 2u);
}

TEST_F(IdempotencyTest, RefusesTheKeyWithAnotherRequest) {
  EXPECT_EQ(post(body).status, 201);
  const auto other = post(R"({"name":"y","scope":"read"})");
  EXPECT_EQ(other.status, 422);
  EXPECT_EQ(json_of(other).at("code"), "key_reused");
  EXPECT_EQ(post(body, "Idempotency-Key: " + std::string(256, 'k') + "\r\n").status, 400);
  // Keys are per caller.
  const auto second = server.token(Scope::admin);
  EXPECT_EQ(Client(server.port(), second).post("/api/v1/tokens", body, "Idempotency-Key: k-1\r\n").status, 201);
}

TEST_F(IdempotencyTest, KeepsRefusalsButNotFailures) {
  EXPECT_EQ(post("{}").status, 400);
  EXPECT_EQ(post("{}").headers.at("idempotency-replayed"), "true");
  http::Request request;
  request.method = "POST";
  request.headers["idempotency-key"] = "k-2";
  int made = 0;
  access::Idempotency keys(server.store());
  const auto broken = [&]() -> http::Response {
    ++made;
    throw http::Problem(503, "busy", "later");
  };
  EXPECT_EQ(keys.once(request, broken).status, 503);
  EXPECT_EQ(keys.once(request, broken).status, 503);
  const auto thrown = [&]() -> http::Response {
    ++made;
    throw std::runtime_error("broken");
  };
  EXPECT_THROW(keys.once(request, thrown), std::runtime_error);
  EXPECT_EQ(keys.once(request, [&] { return http::text_response(200, "text/plain", "done"); }).status, 200);
  EXPECT_EQ(made, 3);
}

TEST_F(IdempotencyTest, HandlesOneRequestPerKeyAtATime) {
  http::Request request;
  request.method = "POST";
  request.headers["idempotency-key"] = "k-3";
  access::Idempotency keys(server.store());
  const auto outer = keys.once(request, [&] {
    const auto inner = keys.once(request, [] { return http::Response(); });
    EXPECT_EQ(inner.status, 409) << "the second was let in";
    EXPECT_NE(std::get<std::string>(inner.body).find("key_in_flight"), std::string::npos);
    EXPECT_EQ(inner.header("Retry-After"), "1") << "the same request may come again";
    return http::text_response(200, "text/plain", "done");
  });
  EXPECT_EQ(outer.status, 200);
}

TEST_F(IdempotencyTest, ReportsAnUnknownOutcome) {
  // The state left by a server that was killed during the request.
  server.store().write([](store::Database& database) {
    store::claim_key(database, "anonymous", "k-4", sha256_hex("POST /x\n"), wall_time_ms(), 0);
  });
  http::Request request;
  request.method = "POST";
  request.target = "/x";
  request.headers["idempotency-key"] = "k-4";
  access::Idempotency keys(server.store());
  try {
    keys.once(request, [] { return http::Response(); });
    FAIL();
  } catch (const http::Problem& problem) {
    EXPECT_EQ(problem.code(), "outcome_unknown");
  }
  // A day later the key is free.
  const auto earlier = server.store().write([](store::Database& database) {
    const std::int64_t now_ms = wall_time_ms();
    return store::claim_key(database, "anonymous", "k-4", "", now_ms, now_ms + 1).has_value();
  });
  EXPECT_FALSE(earlier);
}

}  // namespace
}  // namespace babelring
