#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>
#include <sstream>

#include "base/clock.h"
#include "base/digest.h"
#include "base/json.h"
#include "server/access/idempotency.h"
#include "server/api/query.h"
#include "server/http/problem.h"
#include "server/store/access.h"
#include "tests/server/test_server.h"
#include "tests/soon.h"

namespace babelring {
namespace {

using http::Scope;
using testing::Client;

json::value json_of(const testing::Answer& answer) {
  return parse_json(answer.body).value();
}

class AuditTest : public ::testing::Test {
 protected:
  json::array audit(const std::string& query = "") {
    return json_of(Client(server.port()).get("/api/v1/audit" + query)).at("items").as_array();
  }
  /// Refusals are recorded shortly after the response. `requests` is the sum of the rows' counts if repeats are joined.
  json::array audit_of(std::size_t rows, std::int64_t requests = 0) {
    json::array found;
    soon([&] {
      found = audit();
      std::int64_t counted = 0;
      for (const auto& row : found) counted += row.at("count").as_int64();
      return found.size() >= rows && counted >= requests;
    });
    EXPECT_EQ(found.size(), rows);
    return found;
  }
  testing::TestServer server;
};

TEST_F(AuditTest, RecordsActorActionAndOutcome) {
  const auto made =
      Client(server.port()).post("/api/v1/tokens", R"({"name":"x","scope":"read"})", "X-Request-Id: r-1\r\n");
  ASSERT_EQ(made.status, 201);
  const auto rows = audit();  // written before the response
  ASSERT_EQ(rows.size(), 1u);
  EXPECT_EQ(rows[0].at("actor"), "test admin");
  EXPECT_TRUE(rows[0].at("token").is_string());
  EXPECT_EQ(rows[0].at("method"), "POST");
  EXPECT_EQ(rows[0].at("route"), "/api/v1/tokens");
  EXPECT_EQ(rows[0].at("object").as_string(), made.headers.at("location"));
  EXPECT_EQ(rows[0].at("status"), 201);
  EXPECT_EQ(rows[0].at("request"), "r-1");
  EXPECT_EQ(rows[0].at("address"), "127.0.0.1");
}

TEST_F(AuditTest, RecordsRefusedWritesButNoReads) {
  Client(server.port(), "").post("/api/v1/tokens", "{}");
  Client(server.port(), server.token(Scope::operate)).post("/api/v1/tokens", "{}");
  Client(server.port()).post("/api/v1/tokens", "{}");
  Client(server.port()).request("DELETE", "/api/v1/tokens/t_nobody?x=secret");
  Client(server.port(), "").get("/api/v1/tokens");
  Client(server.port()).post("/api/v1/nothing", "{}");
  const auto rows = audit_of(4);
  std::multiset<std::int64_t> statuses;
  for (const auto& row : rows) statuses.insert(row.at("status").as_int64());
  EXPECT_EQ(statuses, (std::multiset<std::int64_t>{400, 400, 401, 403}));
  for (const auto& row : rows) EXPECT_EQ(to_text(row).find("secret"), std::string::npos);
}

TEST_F(AuditTest, IsNotFloodedByUnauthorizedClients) {
  Client(server.port()).post("/api/v1/tokens", R"({"name":"x","scope":"read"})");
  for (int i = 0; i < 200; ++i) {
    Client stranger(server.port(), "");
    EXPECT_EQ(stranger.post("/api/v1/runs/" + std::to_string(i) + "/stop", "{}").status, 401);
  }
  Client(server.port(), server.token(Scope::read)).post("/api/v1/tokens", "{}");
  const auto rows = audit_of(3, 202);
  std::map<std::int64_t, std::int64_t> counts;
  for (const auto& row : rows) counts[row.at("status").as_int64()] = row.at("count").as_int64();
  EXPECT_EQ(counts, (std::map<std::int64_t, std::int64_t>{{201, 1}, {401, 200}, {403, 1}}));
  server.restart();
  for (const auto& row : audit_of(3)) EXPECT_EQ(row.at("count"), counts[row.at("status").as_int64()]) << "on disk";
}

TEST_F(AuditTest, RecordsNothingOfScopeReadForAnyMethod) {
  const std::string reader = server.token(Scope::read);
  for (int i = 0; i < 20; ++i) {
    EXPECT_EQ(Client(server.port(), reader).post("/api/v1/metrics/query", "{}").status, 422);
    Client(server.port(), reader).post("/api/v1/runs:validate", "{}");
    Client(server.port(), reader).post("/api/v1/checkpoints/c_01J8ZQ4T5W6X7Y8Z9A0B1C2D3E/translate", "{}");
    EXPECT_EQ(Client(server.port(), "").post("/api/v1/metrics/query", "{}").status, 401);
  }
  Client(server.port(), reader).post("/api/v1/tokens", "{}");
  audit_of(1);  // the last one's alone
}

TEST_F(AuditTest, CountsRefusalsOfAuthorizedClientsByPath) {
  Client client(server.port());
  for (int i = 0; i < 3; ++i) client.request("DELETE", "/api/v1/tokens/t_nobody");
  client.request("DELETE", "/api/v1/tokens/t_other");
  const auto rows = audit_of(2, 4);
  EXPECT_EQ(rows[0].at("object"), "/api/v1/tokens/t_other");
  EXPECT_EQ(rows[1].at("object"), "/api/v1/tokens/t_nobody");
  EXPECT_EQ(rows[1].at("count"), 3);
  EXPECT_GE(rows[1].at("last_time").as_string(), rows[1].at("time").as_string());
}

TEST_F(AuditTest, RecordsIngestOnceAnHour) {
  for (int i = 1; i <= 3; ++i) {
    Client(server.port()).post(testing::records_path(), testing::batch_text({testing::step_record(i, i)}));
  }
  Client(server.port(), "").post(testing::records_path(), "{}");
  Client(server.port(), "").post(testing::records_path(), "{}");
  const auto rows = audit_of(2, 5);
  EXPECT_EQ(rows[1].at("status"), 200);
  EXPECT_EQ(rows[1].at("count"), 3);
  EXPECT_EQ(rows[0].at("status"), 401);
  EXPECT_EQ(rows[0].at("count"), 2);
}

/// The row is part of the change's transaction: if it cannot be written, nothing changes.
TEST_F(AuditTest, NothingChangesWithoutItsRow) {
  testing::put(server.store(), {testing::step_record(1, 1)});
  const std::string run = "/api/v1/runs/" + testing::run_id, reporter = server.token(Scope::ingest);
  Client client(server.port());
  const std::string token(
      json_of(client.post("/api/v1/tokens", R"({"name":"x","scope":"read"})")).at("id").as_string());
  const auto state = [&] {
    auto reader = server.store().reader();
    std::string text;
    for (const char* what :
         {"SELECT group_concat(id) FROM tokens", "SELECT count(*) FROM steps", "SELECT count(*) FROM alert_rules",
          "SELECT count(*) FROM retention", "SELECT count(*) || notes FROM runs", "SELECT count(*) FROM audit"}) {
      text += reader->database.scalar(what) + ";";
    }
    return text;
  };
  const std::string before = state();
  server.store().write([](store::Database& database) {
    database.execute("CREATE TRIGGER closed BEFORE INSERT ON audit BEGIN SELECT RAISE(ABORT, 'closed'); END");
  });
  const auto write_all = [&](int made, int found, int removed) {
    EXPECT_EQ(client.post("/api/v1/tokens", R"({"name":"y","scope":"read"})").status, made);
    EXPECT_EQ(client.request("PATCH", run, R"({"notes":"x"})").status, found);
    EXPECT_EQ(client.request("PUT", run + "/retention", R"({"keep_last":1})").status, found);
    EXPECT_EQ(client.request("PUT", "/api/v1/alert-rules", R"({"items":[{"name":"a","kind":"stall","threshold":60}]})")
                  .status,
              found);
    EXPECT_EQ(Client(server.port(), reporter)
                  .post(testing::records_path(), testing::batch_text({testing::step_record(2, 2)}))
                  .status,
              found);
    EXPECT_EQ(client.request("DELETE", "/api/v1/tokens/" + token).status, removed);
  };
  write_all(503, 503, 503);
  EXPECT_EQ(state(), before);
  server.store().write([](store::Database& database) { database.execute("DROP TRIGGER closed"); });
  write_all(201, 200, 204);
  EXPECT_NE(state(), before);
  // One row each, although each is offered twice: with the change and with the response.
  std::vector<std::int64_t> statuses;
  for (const auto& row : audit()) statuses.push_back(row.at("status").as_int64());
  EXPECT_EQ(statuses, (std::vector<std::int64_t>{204, 200, 200, 200, 200, 201, 201}));
}

TEST_F(AuditTest, ListsPagesAndFiltersByActor) {
  for (int i = 0; i < 5; ++i) Client(server.port()).post("/api/v1/tokens", R"({"name":"x","scope":"read"})");
  const auto page = json_of(Client(server.port()).get("/api/v1/audit?limit=2"));
  EXPECT_EQ(page.at("items").as_array().size(), 2u);
  const std::string cursor(page.at("next_cursor").as_string());
  EXPECT_EQ(audit("?limit=4&cursor=" + cursor).size(), 3u);
  EXPECT_EQ(audit("?actor=test%20admin").size(), 5u);
  // The link to the next page keeps the filters.
  const auto first = Client(server.port()).get("/api/v1/audit?actor=test%20admin&limit=2");
  const std::string link = first.headers.at("link");
  EXPECT_TRUE(link.starts_with("</api/v1/audit?cursor=p") &&
              link.ends_with("&actor=test%20admin&limit=2>; rel=\"next\""))
      << link;
  EXPECT_EQ(audit("?actor=nobody'%20OR%20'1'='1").size(), 0u);
}

TEST_F(AuditTest, FiltersEntriesByTheirMembers) {
  Client client(server.port());
  const auto made = client.post("/api/v1/tokens", R"({"name":"x","scope":"read"})");
  client.request("DELETE", "/api/v1/tokens/t_nobody");
  const std::string path = made.headers.at("location"), token(audit()[0].at("token").as_string());
  EXPECT_EQ(client.request("DELETE", path).status, 204);
  const auto count = [&](const std::string& query) { return audit(query).size(); };
  EXPECT_EQ(count(""), 3u);
  EXPECT_EQ(count("?status=404"), 1u);
  EXPECT_EQ(count("?status=2xx"), 2u);
  EXPECT_EQ(count("?route=/api/v1/tokens/%7Btoken%7D"), 2u);
  EXPECT_EQ(count("?object=" + path), 2u);
  EXPECT_EQ(count("?object=/api/v1/tokens/"), 3u);
  EXPECT_EQ(count("?object=/api/v1/token"), 0u);
  EXPECT_EQ(count("?token=" + token), 3u);
  EXPECT_EQ(count("?token=t_other"), 0u);
  EXPECT_EQ(count("?from=2020-01-01"), 3u);
  EXPECT_EQ(count("?to=2020-01-01"), 0u);
  EXPECT_EQ(count("?from=2020-01-01T00:00:00Z&to=2999-12-31T23:59:59.999%2B01:00&status=204&actor=test%20admin"), 1u);
  for (const char* wrong : {"?status=4", "?status=6xx", "?status=4x", "?from=yesterday", "?from=2026-02-30",
                            "?to=2026-11-21T25:00:00Z", "?to=2026-11-21T12:00:00"}) {
    const auto refused = client.get(std::string("/api/v1/audit") + wrong);
    EXPECT_EQ(refused.status, 400) << wrong;
    EXPECT_EQ(json_of(refused).at("code"), "bad_parameter");
    EXPECT_EQ(client.get(std::string("/api/v1/audit.jsonl") + wrong).status, 400) << wrong;
  }
}

TEST_F(AuditTest, IsExportedAsLinesOfJsonOldestFirst) {
  constexpr int entries = 2500;  // several batches
  server.store().write([&](store::Database& database) {
    for (int i = 0; i < entries; ++i) {
      store::AuditRow row;
      row.time_ms = 1'795'233'600'000 + i;
      row.status = i % 2 == 0 ? 200 : 404;
      store::append_audit(database, row);
    }
  });
  const auto answer = Client(server.port()).get("/api/v1/audit.jsonl?status=4xx");
  EXPECT_EQ(answer.status, 200);
  EXPECT_EQ(answer.headers.at("content-type"), "application/x-ndjson");
  std::istringstream text(answer.body);
  std::string last;
  int lines = 0;
  for (std::string line; std::getline(text, line); ++lines) {
    const std::string time(parse_json(line).value().at("time").as_string());
    EXPECT_GT(time, last);
    last = time;
  }
  EXPECT_EQ(lines, entries / 2);
  EXPECT_EQ(Client(server.port(), server.token(Scope::operate)).get("/api/v1/audit.jsonl").status, 403);
}

TEST(AuditTimes, AreParsedAsRfc3339) {
  EXPECT_EQ(api::parse_time("1970-01-01"), 0);
  EXPECT_EQ(api::parse_time("2026-11-21T08:15:30.1239Z"), 1'795'248'930'123);
  EXPECT_EQ(api::parse_time("2026-11-21T09:15:30.123+01:00"), 1'795'248'930'123);
  EXPECT_EQ(api::parse_time("2026-11-21t03:45:30-04:30"), 1'795'248'930'000);
  EXPECT_EQ(api::parse_time(format_rfc3339(1'795'248'930'123)), 1'795'248'930'123);
  for (const char* wrong : {"", "2026", "2026-1-1", "2026-13-01", "2026-00-10", "+026-01-01", "2026-11-21T",
                            "2026-11-21Z", "2026-11-21T08:15Z", "2026-11-21T08:15:30", "2026-11-21T08:15:30.Z",
                            "2026-11-21T08:15:30Zx", "2026-11-21T08:15:30+1:00", "2026-11--1"}) {
    EXPECT_FALSE(api::parse_time(wrong)) << wrong;
  }
}

http::WriteNote note_of(std::int64_t time_ms, const std::string& route, int status, bool kept_by_age) {
  http::WriteNote note;
  note.time_ms = time_ms;
  note.token = kept_by_age ? "t_admin" : "t_reader";
  note.method = "POST";
  note.route = note.object = route;
  note.status = status;
  note.kept_by_age = kept_by_age;
  return note;
}

/// Entries caused by readers, reporters and anonymous clients never displace entries of operators.
TEST(AuditLog, KeepsEntriesOfOperatorsUnderAnyLoad) {
  testing::TemporaryFolder folder;
  store::Store store(folder.path());
  access::TokenService tokens(store);
  access::AuditLog::Limits limits;
  limits.rows = 10;
  limits.rows_a_source = 999;
  const std::int64_t now_ms = wall_time_ms();
  access::AuditLog::Counts counts;
  {
    access::AuditLog log(store, tokens, limits);
    for (int i = 0; i < 20; ++i) log.note(note_of(now_ms, "/tokens", 201, true), {});
    for (int i = 0; i < 5000; ++i) log.note(note_of(now_ms, "/" + std::to_string(i), 403, false), {});
    ASSERT_TRUE(soon([&] { return (counts = log.counts()).displaced >= 990; }));
    for (int i = 0; i < 100; ++i) log.note(note_of(now_ms, "/again", 401, false), {});
    ASSERT_TRUE(soon([&] { return (counts = log.counts()).displaced >= 991; }));
  }
  EXPECT_EQ(counts.joined, 4000u + 99u) << "beyond what one token may begin, refusals are joined by their status";
  EXPECT_EQ(counts.expired, 0u);
  auto reader = store.reader();
  const auto rows = store::list_audit(*reader, {.limit = 100});
  EXPECT_EQ(std::count_if(rows.begin(), rows.end(), [](const auto& row) { return row.status == 201; }), 20);
  EXPECT_EQ(rows.size(), 30u);
  EXPECT_EQ(rows.front().object, "/again");
  EXPECT_EQ(rows.front().count, 100);
}

TEST(AuditLog, DeletesEntriesOfOperatorsByAge) {
  testing::TemporaryFolder folder;
  store::Store store(folder.path());
  access::TokenService tokens(store);
  const std::int64_t now_ms = wall_time_ms(), day_ms = 86'400'000;
  store.write([&](store::Database& database) {
    for (const std::int64_t age_days : {100, 91, 89, 0}) {
      store::AuditRow row;
      row.time_ms = now_ms - age_days * day_ms;
      row.kept_by_age = true;
      store::append_audit(database, row);
    }
  });
  access::AuditLog log(store, tokens);
  ASSERT_TRUE(soon([&] { return log.counts().expired == 2; }));
  auto reader = store.reader();
  EXPECT_EQ(store::list_audit(*reader, {}).size(), 2u);
}

TEST(AuditLog, IsBoundedAndKeepsTheNewest) {
  testing::TemporaryFolder folder;
  store::Store store(folder.path());
  access::TokenService tokens(store);
  {
    access::AuditLog::Limits limits;
    limits.rows = 10;
    access::AuditLog log(store, tokens, limits);
    for (int i = 1; i <= 50; ++i) {
      http::WriteNote note;
      note.time_ms = i;
      log.note(note, {});
    }
  }
  auto reader = store.reader();
  const auto rows = store::list_audit(*reader, {.limit = 100});
  ASSERT_EQ(rows.size(), 10u);
  EXPECT_EQ(rows.front().time_ms, 50);
  EXPECT_EQ(rows.back().time_ms, 41);
}

class IdempotencyTest : public AuditTest {
 protected:
  testing::Answer post(const std::string& body, const std::string& key = "Idempotency-Key: k-1\r\n") {
    return Client(server.port()).post("/api/v1/tokens", body, key);
  }
  std::size_t tokens() { return server.service().tokens.list().size(); }
  const std::string wish = R"({"name":"x","scope":"read"})";
};

TEST_F(IdempotencyTest, ReplaysTheFirstResponse) {
  const auto first = post(wish), second = post(wish), quoted = post(wish, "Idempotency-Key: \"k-1\"\r\n");
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
  EXPECT_EQ(post(wish).body, second.body);
  EXPECT_EQ(tokens(), 2u);
}

TEST_F(IdempotencyTest, RefusesTheKeyWithAnotherRequest) {
  EXPECT_EQ(post(wish).status, 201);
  const auto other = post(R"({"name":"y","scope":"read"})");
  EXPECT_EQ(other.status, 422);
  EXPECT_EQ(json_of(other).at("code"), "key_reused");
  EXPECT_EQ(post(wish, "Idempotency-Key: " + std::string(256, 'k') + "\r\n").status, 400);
  // Keys are per caller.
  const auto second = server.token(Scope::admin);
  EXPECT_EQ(Client(server.port(), second).post("/api/v1/tokens", wish, "Idempotency-Key: k-1\r\n").status, 201);
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
