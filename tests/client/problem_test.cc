#include "client/problem.h"

#include <gtest/gtest.h>

namespace babelring {
namespace {

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
