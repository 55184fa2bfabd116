#include <algorithm>
#include <map>
#include <set>
#include <sstream>

#include "base/clock.h"
#include "base/digest.h"
#include "server/http/reply.h"
#include "tests/server/access/audit_fixture.h"

namespace babelring {
namespace {

using http::Scope;
using testing::Client;

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
    Client(server.port(), reader).post("/api/v1/checkpoints/c_01J8ZQ4T5W6X7Y8Z9A0B1C2D3E/exports", "{}");
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

}  // namespace
}  // namespace babelring
