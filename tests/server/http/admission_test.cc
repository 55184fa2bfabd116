#include "server/http/admission.h"

#include <gtest/gtest.h>

#include "base/json.h"
#include "server/http/static_files.h"
#include "tests/server/test_server.h"

namespace babelring {
namespace {

using http::Scope;
using testing::Client;

testing::Answer ask(std::uint16_t port, const std::string& method, const std::string& host,
                    const std::string& headers) {
  Client client(port);
  client.send(method + " /api/v1/tokens HTTP/1.1\r\nHost: " + host + "\r\n" + testing::authorization() + headers +
              (method == "POST" ? "Content-Type: application/json\r\nContent-Length: 2\r\n\r\n{}" : "\r\n"));
  return client.receive();
}

TEST(Admission, AnswersForItsOwnNamesAlone) {
  http::AdmissionOptions options;
  options.names.hosts = {"train.example", "[fe80::1]"};
  testing::TestServer server({}, {}, options);
  for (const char* host : {"localhost", "LOCALHOST:80", "127.0.0.1:8080", "[::1]:9", "train.example",
                           "Train.Example:443", "[FE80::1]:1"}) {
    EXPECT_EQ(ask(server.port(), "GET", host, "").status, 200) << host;
  }
  for (const char* host : {"evil.example", "127.0.0.1.evil.example", "localhost.evil.example", "evil.example:8080",
                           "train.example.evil", "127.0.0.2", "[::2]", "0", "localhost@evil.example", "*"}) {
    EXPECT_EQ(ask(server.port(), "GET", host, "").status, 421) << host;
    EXPECT_EQ(ask(server.port(), "POST", host, "").status, 421) << host;
  }
}

TEST(Admission, LetsNoOtherSiteWrite) {
  testing::TestServer server;
  for (const char* origin : {"https://evil.example", "null", "http://localhost.evil.example", "http://127.0.0.1:1",
                             "localhost:80", "file://", "http://localhost:8080@evil.example"}) {
    const std::string header = std::string("Origin: ") + origin + "\r\n";
    const auto written = ask(server.port(), "POST", "localhost:8080", header);
    EXPECT_EQ(written.status, 403) << origin;
    EXPECT_EQ(parse_json(written.body)->at("code"), "origin_refused");
    const auto read = ask(server.port(), "GET", "localhost:8080", header);
    EXPECT_EQ(read.status, 200) << origin;
    EXPECT_FALSE(read.headers.contains("access-control-allow-origin")) << "the browser keeps it from the page";
    EXPECT_EQ(
        ask(server.port(), "OPTIONS", "localhost:8080", header + "Access-Control-Request-Method: POST\r\n").status,
        405);
  }
  EXPECT_EQ(ask(server.port(), "POST", "localhost:8080", "Origin: http://localhost:8080\r\n").status, 400);  // let in
}

/// A proxy on another port, or one that rewrites Host: the browser says whose page it is.
TEST(Admission, KnowsItsOwnPagesBehindAProxy) {
  http::AdmissionOptions options;
  options.behind_proxy = true;
  testing::TestServer open, behind({}, {}, options);
  const std::string origin = "Origin: https://train.example:8443\r\n";
  const auto written = ask(open.port(), "POST", "localhost", origin);
  EXPECT_EQ(written.status, 403);
  EXPECT_EQ(parse_json(written.body)->at("detail"),
            "pages of another site may not write here: Origin is https://train.example:8443, Host is localhost; see "
            "--allow-origin");
  EXPECT_EQ(ask(open.port(), "POST", "localhost", origin + "Sec-Fetch-Site: same-origin\r\n").status, 400);  // let in
  for (const char* site : {"same-site", "cross-site", "none", "same-origin-not"}) {
    EXPECT_EQ(ask(open.port(), "POST", "localhost", origin + "Sec-Fetch-Site: " + site + "\r\n").status, 403) << site;
  }
  const std::string forwarded = origin + "X-Forwarded-Host: train.example:8443\r\n";
  EXPECT_EQ(ask(open.port(), "POST", "localhost", forwarded).status, 403) << "believed of a proxy alone";
  EXPECT_EQ(ask(behind.port(), "POST", "localhost", forwarded).status, 400);  // let in
  EXPECT_EQ(ask(behind.port(), "POST", "localhost", origin + "X-Forwarded-Host: evil.example\r\n").status, 403);
  EXPECT_EQ(ask(behind.port(), "POST", "localhost", "Origin: null\r\nSec-Fetch-Site: same-origin\r\n").status, 403);
}

TEST(Admission, LetsNamedSitesUseTheApi) {
  http::AdmissionOptions options;
  options.names.origins = {"https://tools.example:8443"};
  testing::TestServer server({}, {}, options);
  const std::string origin = "Origin: https://tools.example:8443\r\n";
  const auto read = ask(server.port(), "GET", "localhost", origin);
  EXPECT_EQ(read.headers.at("access-control-allow-origin"), "https://tools.example:8443");
  EXPECT_EQ(read.headers.at("vary"), "Origin");
  EXPECT_FALSE(read.headers.contains("access-control-allow-credentials"));
  EXPECT_EQ(ask(server.port(), "POST", "localhost", origin).status, 400);  // let in
  const auto preflight = ask(server.port(), "OPTIONS", "localhost", origin + "Access-Control-Request-Method: POST\r\n");
  EXPECT_EQ(preflight.status, 204);
  EXPECT_NE(preflight.headers.at("access-control-allow-headers").find("Authorization"), std::string::npos);
  EXPECT_EQ(ask(server.port(), "POST", "localhost", "Origin: https://tools.example\r\n").status, 403);
}

TEST(Admission, TakesOtherNamesWhileItWorks) {
  http::AdmissionOptions options;
  options.names = {{"old.example"}, {"https://old.example"}};
  testing::TestServer server({}, {}, options);
  server.http_server().allow({{"new.example"}, {"https://new.example"}});
  EXPECT_EQ(ask(server.port(), "GET", "new.example", "").status, 200);
  EXPECT_EQ(ask(server.port(), "GET", "old.example", "").status, 421);
  EXPECT_EQ(ask(server.port(), "GET", "localhost", "").status, 200);
  EXPECT_EQ(ask(server.port(), "POST", "localhost", "Origin: https://new.example\r\n").status, 400);  // let in
  EXPECT_EQ(ask(server.port(), "POST", "localhost", "Origin: https://old.example\r\n").status, 403);
}

TEST(RateLimiter, RefillsSteadilyAndIsBounded) {
  using namespace std::chrono_literals;
  http::RateLimiter limiter({10, 20});
  const auto start = std::chrono::steady_clock::now();
  for (int i = 0; i < 20; ++i) EXPECT_TRUE(limiter.take("a", start).allowed) << i;
  const auto refused = limiter.take("a", start);
  EXPECT_FALSE(refused.allowed);
  EXPECT_NEAR(refused.wait_seconds, 0.1, 1e-9);
  EXPECT_TRUE(limiter.take("b", start).allowed);
  EXPECT_FALSE(limiter.take("a", start + 99ms).allowed);
  EXPECT_TRUE(limiter.take("a", start + 101ms).allowed);
  EXPECT_FALSE(limiter.take("a", start + 102ms).allowed);
  EXPECT_NEAR(limiter.take("a", start + 1h).left, 19, 1e-9);
  for (int i = 0; i < 50'000; ++i) limiter.take(std::to_string(i), start + 2h);
  EXPECT_LE(limiter.buckets(), http::RateLimiter::max_buckets);
  for (int i = 0; i < 60; ++i) EXPECT_TRUE(limiter.take("scaled", start, 3).allowed) << i;
  EXPECT_FALSE(limiter.take("scaled", start, 3).allowed);
  EXPECT_NEAR(limiter.take("scaled", start, 3).wait_seconds, 1.0 / 30, 1e-9);
  EXPECT_TRUE(limiter.take("scaled", start + 34ms, 3).allowed);
  http::RateLimiter slow({0.25, 0.5});
  EXPECT_TRUE(slow.take("a", start).allowed);
  EXPECT_FALSE(slow.take("a", start + 3s).allowed);
  EXPECT_TRUE(slow.take("a", start + 5s).allowed) << "a slow rate lets some through all the same";
  http::RateLimiter off({0, 0});
  for (int i = 0; i < 100; ++i) EXPECT_TRUE(off.take("a", start).allowed);
}

TEST(RateLimiter, AtItsBoundKeepsTheBucketsOfThoseItHoldsBack) {
  using namespace std::chrono_literals;
  http::RateLimiter limiter({1, 10});
  const auto start = std::chrono::steady_clock::now();
  for (int i = 0; i < 10; ++i) EXPECT_TRUE(limiter.take("greedy", start).allowed);
  for (int i = 0; i < 50'000; ++i) EXPECT_TRUE(limiter.take(std::to_string(i), start).allowed);
  EXPECT_LE(limiter.buckets(), http::RateLimiter::max_buckets);
  EXPECT_FALSE(limiter.take("greedy", start).allowed);
}

TEST(Admission, BoundsHowOftenATokenAsks) {
  http::AdmissionOptions options;
  options.rates = {0.001, 3};  // none is earned anew while the test takes its time
  testing::TestServer server({}, {}, options);
  const std::string reader = server.token(Scope::read);
  Client client(server.port(), reader);
  for (int i = 2; i >= 0; --i) {
    const auto answer = client.get("/api/v1/runs");
    EXPECT_EQ(answer.status, 200);
    EXPECT_EQ(answer.headers.at("ratelimit-policy"), "\"default\";q=3;w=3000");
    EXPECT_TRUE(answer.headers.at("ratelimit").starts_with("\"default\";r=" + std::to_string(i) + ";t="));
  }
  const auto refused = client.get("/api/v1/runs");
  EXPECT_EQ(refused.status, 429);
  EXPECT_NEAR(std::stod(refused.headers.at("retry-after")), 1000, 100);
  EXPECT_TRUE(refused.headers.contains("ratelimit"));
  EXPECT_EQ(parse_json(refused.body)->at("code"), "too_many_requests");
  EXPECT_EQ(client.get("/healthz").status, 200);                     // always
  EXPECT_EQ(Client(server.port()).get("/api/v1/runs").status, 200);  // others have their own
  Client nobody(server.port(), "");
  for (int i = 0; i < 3; ++i) EXPECT_EQ(nobody.get("/api/v1/runs").status, 401);
  EXPECT_EQ(nobody.get("/api/v1/runs").status, 429);
  EXPECT_EQ(nobody.get("/api/v1/version").status, 429);
}

/// Nor does a refusal cost a reporter its connection.
TEST(Admission, LetsEachRankOfARunReport) {
  http::AdmissionOptions options;
  options.rates = {0.001, 2};
  testing::TestServer server({}, {}, options);
  Client client(server.port(), server.token(Scope::ingest));
  std::int64_t sequence = 0;
  const auto report = [&](std::int64_t rank) {
    ++sequence;
    return client.post(testing::records_path(), testing::batch_text({testing::step_record(sequence, sequence, rank)}));
  };
  for (const std::int64_t rank : {3, 1, 0, 2}) EXPECT_EQ(report(rank).status, 200) << rank;
  for (int i = 0; i < 5; ++i) {
    const auto answer = report(i % 4);
    EXPECT_EQ(answer.status, 200) << i;
    EXPECT_TRUE(answer.headers.at("ratelimit-policy").starts_with("\"default\";q=8;"));
  }
  EXPECT_EQ(report(0).status, 429);
  EXPECT_EQ(report(1).status, 429) << "over the same connection";
  EXPECT_EQ(client.get("/healthz").status, 200);
  EXPECT_EQ(client.get("/api/v1/runs").status, 403) << "reports leave the token's other requests alone";
}

/// Nobody gets a higher limit by inventing ranks or runs.
TEST(RunRanks, AreCountedByTokenUpToABound) {
  http::RunRanks ranks;
  for (int run = 0; run < 10; ++run) {
    for (std::int64_t rank = 0; rank < 4096; ++rank) ranks.record("t_1", "run " + std::to_string(run), rank, 0);
  }
  EXPECT_EQ(ranks.of("t_1"), http::RunRanks::max_unknown_ranks);
  for (std::int64_t rank = 0; rank < 1000; ++rank) ranks.record("t_2", "started by the server", rank, 1000);
  EXPECT_EQ(ranks.of("t_2"), 1000);
  ranks.record("t_3", "run", 5, 0);
  ranks.record("t_3", "run", 5, 0);
  EXPECT_EQ(ranks.of("t_3"), 1);
  EXPECT_EQ(ranks.of("t_4"), 0);
}

TEST(Admission, GivesARankItsShareOfAHighRateAndNoMore) {
  http::AdmissionOptions options;
  options.rates = {1000, 2000};
  testing::TestServer server({}, {}, options);
  const std::string reporter = server.token(Scope::ingest);
  const std::string id = server.service().tokens.list().back().id;
  for (std::int64_t rank = 0; rank < 4096; ++rank) server.service().ranks.record(id, testing::run_id, rank, 0);
  const auto answer =
      Client(server.port(), reporter).post(testing::records_path(), testing::batch_text({testing::step_record(1, 1)}));
  EXPECT_EQ(answer.status, 200);
  EXPECT_TRUE(answer.headers.at("ratelimit-policy").starts_with("\"default\";q=10240;"))
      << answer.headers.at("ratelimit-policy");
}

TEST(Admission, ARankCountsAsOneWhateverItsNumber) {
  http::AdmissionOptions options;
  options.rates = {0.001, 2};
  testing::TestServer server({}, {}, options);
  Client client(server.port(), server.token(Scope::ingest));
  std::int64_t sequence = 0;
  const auto report = [&] {
    ++sequence;
    const std::string batch = testing::batch_text({testing::step_record(sequence, sequence, 4000)});
    return client.post(testing::records_path(), batch).status;
  };
  EXPECT_EQ(report(), 200);
  EXPECT_EQ(report(), 200);
  EXPECT_EQ(report(), 200);
  EXPECT_EQ(report(), 429);
}

TEST(Admission, TakesTheClientsAddressFromTheProxyAlone) {
  for (const bool behind_proxy : {false, true}) {
    http::AdmissionOptions options;
    options.behind_proxy = behind_proxy;
    testing::TestServer server({}, {}, options);
    Client(server.port()).request("DELETE", "/api/v1/tokens/x", "", "X-Forwarded-For: 6.6.6.6, 10.1.2.3\r\n");
    const auto rows = parse_json(Client(server.port()).get("/api/v1/audit").body).value();
    EXPECT_EQ(rows.at("items").at(0).at("address"), behind_proxy ? "10.1.2.3" : "127.0.0.1");
  }
}

TEST(Admission, NamesItsAddressesAsTheProxyShowsThem) {
  http::AdmissionOptions options;
  options.behind_proxy = true;
  testing::TestServer behind({}, {}, options), open;
  const auto made_at = [](testing::TestServer& server, const std::string& prefix) {
    return Client(server.port())
        .request("POST", "/api/v1/tokens", R"({"name": "x", "scope": "read"})",
                 "X-Forwarded-Prefix: " + prefix + "\r\n")
        .headers.at("location");
  };
  EXPECT_TRUE(made_at(behind, "/a/babel-ring/").starts_with("/a/babel-ring/api/v1/tokens/"));
  for (const char* odd : {"", "/", "a", "//evil.example", "/a b", "/a\"", "/a,/b"}) {
    EXPECT_TRUE(made_at(behind, odd).starts_with("/api/v1/tokens/")) << odd;
  }
  EXPECT_TRUE(made_at(open, "/a").starts_with("/api/v1/tokens/")) << "believed of a proxy alone";
  made_at(behind, "/a");
  const auto page = Client(behind.port()).request("GET", "/api/v1/tokens?limit=1", "", "X-Forwarded-Prefix: /a\r\n");
  EXPECT_TRUE(page.headers.at("link").starts_with("</a/api/v1/tokens?cursor=")) << page.headers.at("link");
  const auto audit = parse_json(Client(behind.port()).get("/api/v1/audit?limit=1").body).value();
  EXPECT_TRUE(audit.at("items").at(0).at("object").as_string().starts_with("/api/v1/tokens/"))
      << "as clients ask for it";
}

TEST(Admission, WithoutAnAuthenticatorAsksNobody) {
  http::Router router;
  router.add("GET", "/admin", Scope::admin, {});
  const http::Admission admission({}, std::move(router), http::StaticFiles({}, {}));
  http::Request request;
  request.method = "GET";
  request.segments = {"admin"};
  request.headers["host"] = "localhost";
  const auto decision = admission.decide(request);
  EXPECT_FALSE(decision.refusal);
  EXPECT_NE(decision.route, nullptr);
  EXPECT_EQ(request.actor, "anonymous");
}

TEST(Compress, PacksLargeJsonWhereItIsTaken) {
  EXPECT_TRUE(http::accepts_gzip("gzip"));
  EXPECT_TRUE(http::accepts_gzip("br, gzip;q=0.5"));
  EXPECT_TRUE(http::accepts_gzip("*"));
  EXPECT_FALSE(http::accepts_gzip("gzip;q=0"));
  EXPECT_FALSE(http::accepts_gzip("gzip; q=0.00"));
  EXPECT_FALSE(http::accepts_gzip("deflate, gzippy"));
  EXPECT_TRUE(http::accepts_gzip("GZip"));
  EXPECT_FALSE(http::accepts_gzip("*, gzip;q=0")) << "what names gzip itself counts";
  EXPECT_FALSE(http::accepts_gzip(""));
  testing::TestServer server;
  Client client(server.port());
  const auto plain = client.get("/api/v1/openapi.json");
  const auto packed = client.get("/api/v1/openapi.json", "Accept-Encoding: gzip\r\n");
  EXPECT_FALSE(plain.headers.contains("content-encoding"));
  EXPECT_EQ(packed.headers.at("content-encoding"), "gzip");
  EXPECT_LT(packed.body.size() * 4, plain.body.size());
  EXPECT_TRUE(packed.body.starts_with("\x1f\x8b"));
  EXPECT_NE(packed.headers.at("etag"), plain.headers.at("etag"));
  for (const auto& answer : {plain, packed}) {
    const std::string known = "If-None-Match: " + answer.headers.at("etag") + "\r\n";
    for (const char* encoding : {"", "Accept-Encoding: gzip\r\n"}) {
      const auto again = client.get("/api/v1/openapi.json", known + encoding);
      EXPECT_EQ(again.status, 304);
      EXPECT_EQ(again.headers.at("etag"), answer.headers.at("etag")) << "by it a cache finds what it has stored";
    }
  }
  EXPECT_FALSE(client.get("/healthz", "Accept-Encoding: gzip\r\n").headers.contains("content-encoding"));
}

}  // namespace
}  // namespace babelring
