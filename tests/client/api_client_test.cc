#include "client/api_client.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <boost/json/object.hpp>

#include "tests/client/scripted_server.h"

namespace babelring {
namespace {

using testing::HasSubstr;
using testing::ThrowsMessage;

TEST(ApiClient, ReadsListsPageByPage) {
  ScriptedServer server([](const ScriptedRequest& request) -> ScriptedAnswer {
    if (request.number == 0) return {.body = R"({"items":[{"n":1},{"n":2}],"next_cursor":"p/2"})"};
    return {.body = R"({"items":[{"n":3}],"next_cursor":null})"};
  });
  ApiClient api({server.address(), ""});
  const auto items = api.get_items("/runs?state=running", 100);
  ASSERT_EQ(items.size(), 3u);
  EXPECT_EQ(items[2].at("n").as_int64(), 3);
  EXPECT_EQ(server.requests()[0].target, "/api/v1/runs?state=running&limit=100");
  EXPECT_EQ(server.requests()[1].target, "/api/v1/runs?state=running&limit=98&cursor=p%2F2");
}

TEST(ApiClient, StopsAtTheItemLimit) {
  ScriptedServer server([](const ScriptedRequest&) {
    return ScriptedAnswer{.body = R"({"items":[{"n":1},{"n":2}],"next_cursor":"more"})"};
  });
  ApiClient api({server.address(), ""});
  EXPECT_EQ(api.get_items("/runs", 2).size(), 2u);
  EXPECT_EQ(server.requests().size(), 1u);
}

TEST(ApiClient, RetriesARequestWithItsIdempotencyKey) {
  ScriptedServer server([](const ScriptedRequest& request) -> ScriptedAnswer {
    if (request.number == 0) return {.body = "{}", .cut_after = 0};
    if (request.number == 1) return {.status = 503, .body = R"({"detail":"busy"})", .headers = {"Retry-After: 0"}};
    return {.status = 202, .body = R"({"id":"r_1"})"};
  });
  ApiClient api({server.address(), ""});
  EXPECT_EQ(api.send("POST", "/runs", {{"name", "x"}}, "key-1").at("id").as_string(), "r_1");
  ASSERT_EQ(server.requests().size(), 3u);
  for (const ScriptedRequest& request : server.requests()) {
    EXPECT_EQ(request.header("idempotency-key"), "key-1");
    EXPECT_EQ(request.body, R"({"name":"x"})");
  }
}

TEST(ApiClient, DoesNotRetryARequestWithoutAKey) {
  ScriptedServer server([](const ScriptedRequest&) {
    return ScriptedAnswer{.status = 503, .body = R"({"detail":"busy"})", .headers = {"Retry-After: 0"}};
  });
  ApiClient api({server.address(), ""});
  EXPECT_THAT([&] { api.send("POST", "/runs/r/stop", {}); }, ThrowsMessage<ServerRefusal>("server says 503: busy"));
  EXPECT_EQ(server.requests().size(), 1u);
}

TEST(ApiClient, ReportsAnInvalidResponse) {
  ScriptedServer server([](const ScriptedRequest&) { return ScriptedAnswer{.body = "<html>"}; });
  ApiClient api({server.address(), ""});
  EXPECT_THAT([&] { api.get("/runs"); }, ThrowsMessage<Failure>(HasSubstr("GET /api/v1/runs: expected a JSON object")));
  ApiClient nobody({"http://127.0.0.1:1", ""});
  EXPECT_THAT([&] { nobody.send("POST", "/runs", {}); },
              ThrowsMessage<Failure>(HasSubstr("connect: Connection refused")));
}

TEST(ApiClient, ExplainsHowToProvideAToken) {
  ScriptedServer server(
      [](const ScriptedRequest&) { return ScriptedAnswer{.status = 401, .body = R"({"detail":"send a token"})"}; });
  EXPECT_THAT([&] { ApiClient({server.address(), ""}).get("/runs"); },
              ThrowsMessage<ServerRefusal>(HasSubstr("--token-file, BABELRING_TOKEN")));
  EXPECT_THAT([&] { ApiClient({server.address(), "bbr_x"}).get("/runs"); },
              ThrowsMessage<ServerRefusal>("server says 401: send a token"));
}

TEST(ApiClient, NoBodyIsAnEmptyObject) {
  ScriptedServer server([](const ScriptedRequest&) { return ScriptedAnswer{.status = 204}; });
  ApiClient api({server.address(), ""});
  EXPECT_TRUE(api.send("PUT", "/checkpoints/c/pin", {}).empty());
  EXPECT_TRUE(api.send("DELETE", "/checkpoints/c/pin", {}).empty());
}

TEST(PercentEncoded, LeavesOnlyUnreservedCharacters) {
  EXPECT_EQ(percent_encoded("aZ09-._~"), "aZ09-._~");
  EXPECT_EQ(percent_encoded("a b/ü?"), "a%20b%2F%C3%BC%3F");
}

std::string told(int status, const std::string& body) {
  return describe(read_problem({.status = status, .body = body, .retry_after = {}}));
}

TEST(Problem, IsOneLineWithStatusAndDetail) {
  EXPECT_EQ(told(404, R"({"title":"Not Found","detail":"no run 'r_1'","code":"run_unknown"})"),
            "server says 404: no run 'r_1'");
  EXPECT_EQ(told(413, R"({"title":"Content Too Large"})"), "server says 413: Content Too Large");
  EXPECT_EQ(told(502, "<html>\nno"), "server says 502: <html>\\x0ano");
  EXPECT_EQ(told(500, ""), "server says 500");
  EXPECT_EQ(told(502, "<HTML><head><Title lang=en>502 Bad\nGateway</TITLE>"),
            "server says 502: a page titled '502 Bad\\x0aGateway'");
  EXPECT_EQ(told(502, "<html><title>no end"), "server says 502: <html><title>no end");
  EXPECT_EQ(describe(read_problem({.status = 308,
                                   .body = "<html><title>308</title>",
                                   .retry_after = {},
                                   .headers = {{"location", "https://train.example.org:8443/api"}}})),
            "server says 308: moved to https://train.example.org:8443/api");
  EXPECT_EQ(told(500, "[1]"), "server says 500: [1]");
  EXPECT_EQ(read_problem({.status = 404, .body = R"({"title":"x","code":"run_unknown"})", .retry_after = {}}).code,
            "run_unknown");
}

TEST(Problem, NamesTheInvalidMembers) {
  const std::string body = R"({"title":"Unprocessable","detail":"config: not valid",
    "errors":[{"pointer":"/config","detail":"line 3: unknown key"},{"detail":"b"},{"pointer":"/c","detail":"c"},
              {"pointer":"/d","detail":"d"}]})";
  EXPECT_EQ(told(422, body), "server says 422: config: not valid; /config: line 3: unknown key; b; /c: c");
  EXPECT_EQ(
      told(
          422,
          R"({"detail":"unknown key 'x'","errors":[{"pointer":"/a/x","detail":"unknown key 'x'","line":3,"column":2}]})"),
      "server says 422: unknown key 'x' (/a/x, line 3)");
  EXPECT_EQ(
      told(400, R"({"detail":"ranks: expected 1 to 64","errors":[{"pointer":"/ranks","detail":"expected 1 to 64"}]})"),
      "server says 400: ranks: expected 1 to 64");
}

TEST(Problem, IsThrownWithItsParts) {
  try {
    throw ServerRefusal(read_problem({.status = 409, .body = R"({"detail":"d","code":"active"})", .retry_after = {}}));
  } catch (const Failure& failure) {
    EXPECT_STREQ(failure.what(), "server says 409: d");
    EXPECT_EQ(dynamic_cast<const ServerRefusal&>(failure).problem().code, "active");
  }
}

}  // namespace

}  // namespace babelring
