#include "tests/server/api_fixture.h"

namespace babelring {
namespace {

using testing::Client;
using testing::records_path;
using testing::step_record;

/// Refusals, their problem details, and rules for all responses.
class ApiRulesTest : public testing::ApiFixture {};

TEST_F(ApiRulesTest, RefusesUnacceptableTypes) {
  post({step_record(1, 1)});
  const auto status = [&](const std::string& path, const std::string& accept) {
    return Client(server.port()).get(path, "Accept: " + accept + "\r\n").status;
  };
  EXPECT_EQ(status("/api/v1/runs", "text/html"), 406);
  EXPECT_EQ(status("/api/v1/runs", "application/*;q=0"), 406);
  EXPECT_EQ(status("/api/v1/runs", "text/html, */*;q=0.1"), 200);
  EXPECT_EQ(status("/api/v1/runs", "application/*"), 200);
  EXPECT_EQ(status(run_path("/metrics.csv"), "application/json"), 406);
  EXPECT_EQ(status(run_path("/logs"), "text/csv"), 406);
  EXPECT_EQ(status("/metrics", "application/openmetrics-text, text/plain;version=0.0.4;q=0.5"), 200);
  const auto series = Client(server.port()).get(run_path("/metrics/loss"), "Accept: text/html, text/csv\r\n");
  EXPECT_TRUE(series.headers.at("content-type").starts_with("text/csv"));
  // Refused before any change; a response without a body is always acceptable.
  const auto edited = Client(server.port()).request("PATCH", run_path(), R"({"notes":"n"})", "Accept: text/html\r\n");
  EXPECT_EQ(edited.status, 406);
  EXPECT_EQ(get(run_path())["notes"], "");
  EXPECT_EQ(Client(server.port()).request("DELETE", "/api/v1/tokens/t_none", "", "Accept: text/html\r\n").status, 404);
}

TEST_F(ApiRulesTest, BoundsTheKeysOfARun) {
  const auto with_purposes = [](std::int64_t number) {
    Record record = step_record(number, number);
    for (int i = 0; i < 60; ++i) {
      std::get<StepRecord>(record.body).memory_bytes["p" + std::to_string(number) + "." + std::to_string(i)] = 1;
    }
    return record;
  };
  std::vector<Record> records;
  for (std::int64_t number = 1; number <= 30; ++number) records.push_back(with_purposes(number));
  EXPECT_EQ(post(records).status, 200);  // 1,800 purposes and what every step has
  const auto refused = post({with_purposes(31), with_purposes(32), with_purposes(33), with_purposes(34)});
  EXPECT_EQ(refused.status, 422);
  EXPECT_NE(refused.body.find("at most 2000 metric keys"), std::string::npos) << refused.body;
  EXPECT_EQ(post({step_record(31, 31)}).status, 200);
  EXPECT_EQ(get(run_path())["update"], 31);
}

TEST_F(ApiRulesTest, BoundsTheCorporaOfAStep) {
  const auto with_corpora = [](int count, const std::string& name) {
    Record record = step_record(1, 1);
    auto& step = std::get<StepRecord>(record.body);
    for (int i = 0; i < count; ++i) {
      step.corpus_loss[name + std::to_string(i)] = 2.5;
      step.corpus_tokens[name + std::to_string(i)] = 100;
    }
    return record;
  };
  const auto more = post({with_corpora(257, "c")});
  EXPECT_EQ(more.status, 422);
  EXPECT_NE(more.body.find("corpus_loss: more than 256 names"), std::string::npos) << more.body;
  EXPECT_NE(post({with_corpora(1, "a,b")}).body.find("corpus_loss: a name has a reserved character"),
            std::string::npos);
  EXPECT_NE(post({with_corpora(1, std::string(200, 'x'))}).body.find("corpus_loss: a name is longer than 128 bytes"),
            std::string::npos);
  EXPECT_EQ(post({with_corpora(256, "c")}).status, 200);
  EXPECT_EQ(get(run_path())["update"], 1);
}

TEST_F(ApiRulesTest, AnswersConditionalAndHeadRequests) {
  post({step_record(1, 1)});
  Client client(server.port());
  const auto first = client.get(run_path("/metrics/loss"));
  const std::string etag = first.headers.at("etag");
  EXPECT_EQ(client.get(run_path("/metrics/loss"), "If-None-Match: " + etag + "\r\n").status, 304);
  EXPECT_EQ(client.get(run_path("/metrics/loss"), "If-None-Match: \"other\"\r\n").status, 200);
  client.send("HEAD " + run_path("/metrics/loss") + " HTTP/1.1\r\nHost: localhost\r\n" + testing::authorization() +
              "\r\n");
  const auto head = client.receive(true);
  EXPECT_EQ(head.headers.at("content-length"), std::to_string(first.body.size()));
  EXPECT_EQ(client.get("/healthz").status, 200);
}

TEST_F(ApiRulesTest, ExplainsProblems) {
  post({step_record(1, 1)});
  Client client(server.port());
  const auto check = [&](const std::string& path, int status, const std::string& code) {
    const auto answer = client.get(path, "X-Request-Id: mine-1\r\n");
    EXPECT_EQ(answer.status, status) << path;
    EXPECT_EQ(answer.headers.at("content-type"), "application/problem+json") << path;
    const auto problem = object(answer);
    EXPECT_EQ(problem.at("code").as_string(), code) << path;
    EXPECT_EQ(problem.at("instance"), "urn:request:mine-1");
  };
  check("/api/v1/runs/r_01J8ZQ4T5W6X7Y8Z9A0B1C2D3F", 404, "run_unknown");
  check("/api/v1/runs/x'%20OR%201=1--", 404, "run_unknown");
  check("/api/v1/evals/e_1;DROP%20TABLE%20runs", 404, "eval_unknown");
  check(run_path("/metrics/loss'%20OR%20'1'='1"), 404, "key_unknown");
  check(run_path("/metrics/loss?points=0"), 400, "bad_parameter");
  check(run_path("/metrics/loss?points=1%20OR%201"), 400, "bad_parameter");
  check(run_path("/metrics/loss?agg=lies"), 400, "bad_parameter");
  check(run_path("/metrics/loss?from=5&to=1"), 416, "range_empty");
  check(run_path("/metrics/loss?from=nan"), 400, "bad_parameter");
  check("/api/v1/runs?cursor=';--", 400, "bad_cursor");
  check("/api/v1/runs?state=x'", 400, "bad_parameter");
  check("/api/v1/runs?limit=501", 400, "bad_parameter");
  check("/api/v1/nothing", 404, "path_unknown");
  EXPECT_EQ(get("/api/v1/runs?q=%25'%20OR%201=1--").at("items").as_array().size(), 0u);
  const auto method = client.post(run_path(), "{}");
  EXPECT_EQ(method.status, 405);
  EXPECT_EQ(method.headers.at("allow"), "GET, HEAD, PATCH, DELETE");
}

TEST_F(ApiRulesTest, ShowsBrowsersAPageForUnknownPaths) {
  Client client(server.port());
  auto answer = client.get("/nonesuch", "Accept: text/html,application/xhtml+xml,*/*;q=0.8\r\n");
  EXPECT_EQ(answer.status, 404);
  EXPECT_EQ(answer.headers.at("content-type"), "text/html; charset=utf-8");
  EXPECT_NE(answer.body.find("<a href=\"/\">"), std::string::npos);
  for (const char* accept : {"Accept: */*\r\n", "Accept: application/json\r\n", ""}) {
    answer = client.get("/nonesuch", accept);
    EXPECT_EQ(answer.status, 404);
    EXPECT_EQ(answer.headers.at("content-type"), "application/problem+json") << accept;
  }
  EXPECT_EQ(client.get("/api/v1/nothing", "Accept: text/html\r\n").headers.at("content-type"),
            "application/problem+json");
}

TEST_F(ApiRulesTest, RefusesHostileBodies) {
  const std::string prefix = R"({"attempt":1,"rank":0,"host":"h","records":[)";
  const auto check = [&](const std::string& body, int status) {
    EXPECT_EQ(Client(server.port()).post(records_path(), body).status, status) << body.substr(0, 100);
  };
  check("", 400);
  check("{", 400);
  check(std::string(100'000, '['), 400);
  check(R"({"attempt":1,"attempt":1,"rank":0,"host":"h","records":[]})", 400);
  check(prefix + R"({"sequence":1,"kind":"step","time_ms":1,"update":1,"loss":1e400}]})", 400);
  check(prefix + R"({"sequence":1,"kind":"step","time_ms":1,"update":1,"loss":NaN}]})", 400);
  check(prefix + R"({"sequence":1,"kind":"weather","time_ms":1}]})", 422);
  check(prefix + R"({"sequence":0,"kind":"step","time_ms":1,"update":1}]})", 422);
  check(prefix + R"({"sequence":1,"kind":"step","time_ms":1,"update":-1}]})", 422);
  const std::string vast = "9223372036854775807";
  check(prefix + R"({"sequence":1,"kind":"step","time_ms":1,"update":)" + vast + "}]}", 422);
  check(prefix + R"({"sequence":1,"kind":"step","update":1,"time_ms":)" + vast + "}]}", 422);
  check(prefix + R"({"kind":"step","time_ms":1,"update":1,"sequence":)" + vast + "}]}", 422);
  const std::string step = R"({"sequence":1,"kind":"step","time_ms":1,"update":1})";
  check(R"({"rank":0,"host":"h","records":[)" + step + R"(],"attempt":)" + vast + "}", 422);
  check(R"({"attempt":1,"host":"h","records":[)" + step + R"(],"rank":1000001})", 422);
  check(prefix + "]}", 422);
  check("[]", 422);
  check(prefix + R"({"sequence":1,"kind":"log","time_ms":1,"level":"info","text":")" + "\xff\xfe" + R"("}]})", 400);
  EXPECT_EQ(Client(server.port()).get(run_path()).status, 404);  // nothing of it was stored
}

TEST_F(ApiRulesTest, BoundsSizesBeforeReadingThem) {
  Client body(server.port());
  body.send("POST " + records_path() + " HTTP/1.1\r\n" + testing::authorization() +
            "Host: localhost\r\nContent-Type: application/json\r\nContent-Length: 5000000\r\n\r\n");
  EXPECT_EQ(body.receive().status, 413);
  Client target(server.port());
  target.send("GET /" + std::string(20'000, 'a'));
  EXPECT_EQ(target.receive().status, 414);
  Client headers(server.port());
  headers.send("GET / HTTP/1.1\r\nHost: localhost\r\nX: " + std::string(20'000, 'a'));
  EXPECT_EQ(headers.receive().status, 431);
  Client type(server.port());
  type.send("POST " + records_path() + " HTTP/1.1\r\n" + testing::authorization() +
            "Host: localhost\r\nContent-Length: 2\r\n\r\n{}");
  EXPECT_EQ(type.receive().status, 415);
  const auto status_of_type = [&](const std::string& name) {
    Client client(server.port());
    client.send("POST " + records_path() + " HTTP/1.1\r\n" + testing::authorization() +
                "Host: localhost\r\nContent-Length: 2\r\nContent-Type: " + name + "\r\n\r\n{}");
    return client.receive().status;
  };
  EXPECT_EQ(status_of_type("application/json-patch+json"), 415);
  EXPECT_EQ(status_of_type("application/jsonlines"), 415);
  EXPECT_EQ(status_of_type("Application/JSON ; charset=utf-8"), 422) << "taken, and then found wanting";
  Client host(server.port());
  host.send("GET /api/v1/version HTTP/1.1\r\nHost: evil.example\r\n\r\n");
  EXPECT_EQ(host.receive().status, 421);
}

/// Probes of load balancers speak HTTP/1.0 without a Host, or name the address.
TEST_F(ApiRulesTest, AnswersHealthChecksForAnyHost) {
  const auto status = [&](const std::string& head) {
    Client client(server.port());
    client.send(head + "\r\n");
    return client.receive().status;
  };
  for (const std::string path : {"/healthz", "/readyz"}) {
    EXPECT_EQ(status("GET " + path + " HTTP/1.0\r\n"), 200) << path;
    EXPECT_EQ(status("GET " + path + " HTTP/1.1\r\nHost: 10.1.2.3:8080\r\n"), 200) << path;
    EXPECT_EQ(status("GET " + path + " HTTP/1.1\r\n"), 400) << path << ": RFC 9112, 3.2";
    EXPECT_EQ(status("GET " + path + " HTTP/1.0\r\nHost: a\r\nHost: a\r\n"), 400) << path;
  }
  EXPECT_EQ(status("GET /api/v1/version HTTP/1.0\r\n"), 421);
}

TEST_F(ApiRulesTest, ServesManyRequestsOnOneConnectionEvenPipelined) {
  Client client(server.port());
  const std::string request = "GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n";
  client.send(request + request + request);
  for (int i = 0; i < 3; ++i) EXPECT_EQ(client.receive().status, 200);
  client.send("GET /healthz HTTP/1.0\r\nHost: localhost\r\n\r\n");
  EXPECT_EQ(client.receive().headers.at("connection"), "close");
  EXPECT_TRUE(client.closed());
}

/// HTTP/1.0 has no chunks: the body ends with the connection, even if the client asks for keep-alive.
TEST_F(ApiRulesTest, SendsNoChunksToOldClients) {
  post({step_record(1, 1)});
  Client client(server.port());
  client.send("GET " + run_path("/metrics.csv") + " HTTP/1.0\r\nHost: localhost\r\nConnection: keep-alive\r\n" +
              testing::authorization() + "\r\n");
  const auto answer = client.receive();
  EXPECT_EQ(answer.status, 200);
  EXPECT_FALSE(answer.headers.contains("transfer-encoding"));
  EXPECT_EQ(answer.headers.at("connection"), "close");
  const std::string body = client.read_until("the end of the connection");
  EXPECT_TRUE(body.starts_with("rank,attempt,step,time_ms,")) << body;
  EXPECT_NE(body.find("\n0,1,1,"), std::string::npos) << body;
}

TEST(HttpLimits, SlowHeadsBodiesAndIdleConnectionsEnd) {
  http::Limits limits;
  limits.header = limits.body = std::chrono::milliseconds(150);
  testing::TestServer server(limits);
  Client head(server.port()), body(server.port());
  head.send("GET /healthz HT");
  body.send("POST " + records_path() + " HTTP/1.1\r\n" + testing::authorization() +
            "Host: localhost\r\nContent-Type: application/json\r\nContent-Length: 50\r\n\r\n{");
  EXPECT_EQ(head.receive().status, 408);
  EXPECT_EQ(body.receive().status, 408);
  http::Limits brief;
  brief.idle = std::chrono::milliseconds(150);
  testing::TestServer hasty(brief);
  EXPECT_TRUE(Client(hasty.port()).closed());
}

}  // namespace
}  // namespace babelring
