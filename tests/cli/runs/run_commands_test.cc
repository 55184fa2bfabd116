#include "cli/runs/run_commands.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <CLI/CLI.hpp>
#include <boost/json/object.hpp>

#include "client/api_client.h"
#include "tests/client/scripted_server.h"

namespace babelring {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::ThrowsMessage;

/// Three runs, asked for as the real server would be.
ScriptedAnswer runs(const ScriptedRequest& request) {
  const std::string ids[] = {"r_01KAJ00000000000000000000A", "r_01KAJ00000000000000000000B",
                             "r_01KBX00000000000000000000C"};
  const std::string names[] = {"toy", "toy", "toy-big"};
  std::string items;
  for (int i = 0; i < 3; ++i) {
    const std::string item = R"({"id":")" + ids[i] + R"(","name":")" + names[i] + R"(","state":"failed"})";
    if (request.target == "/api/v1/runs/" + ids[i]) return {.body = item};
    items += (items.empty() ? "" : ",") + item;
  }
  if (request.target.starts_with("/api/v1/runs?q="))
    return {.body = R"({"items":[)" + items + R"(],"next_cursor":null})"};
  return {.status = 404, .body = R"({"detail":"no run"})"};
}

std::string found(const std::string& named) {
  ScriptedServer server(runs);
  ApiClient api({server.address(), ""});
  return std::string(find_run(api, named).at("id").as_string());
}

TEST(FindRun, ByIdOrUniquePrefix) {
  EXPECT_EQ(found("r_01KAJ00000000000000000000B"), "r_01KAJ00000000000000000000B");
  EXPECT_EQ(found("r_01KB"), "r_01KBX00000000000000000000C");
  EXPECT_EQ(found("toy-big"), "r_01KBX00000000000000000000C");
  EXPECT_EQ(found("toy-"), "r_01KBX00000000000000000000C");
}

TEST(FindRun, ListsAmbiguousRuns) {
  EXPECT_THAT([] { found("toy"); },
              ThrowsMessage<Failure>(AllOf(HasSubstr("'toy' matches 2 runs: r_01KAJ00000000000000000000A (toy, failed"),
                                           HasSubstr("r_01KAJ00000000000000000000B"), HasSubstr("give an id"))));
  EXPECT_THAT([] { found("r_01K"); }, ThrowsMessage<Failure>(HasSubstr("matches 3 runs")));
  EXPECT_THAT([] { found("to"); }, ThrowsMessage<Failure>(HasSubstr("matches 3 runs")));
}

TEST(FindRun, ReportsNoMatch) {
  EXPECT_THAT([] { found("tiny"); },
              ThrowsMessage<Failure>(HasSubstr("has no run with an id or name that starts with 'tiny'")));
  EXPECT_THAT([] { found("r_01KAJ00000000000000000000Z"); }, ThrowsMessage<ServerRefusal>("server says 404: no run"));
  EXPECT_THROW(found(""), UsageFailure);
}

TEST(RunCompare, PrintsTheBestAndTheDifferences) {
  ScriptedServer server([](const ScriptedRequest& request) -> ScriptedAnswer {
    const std::string first = "r_01KAJ00000000000000000000A", second = "r_01KAJ00000000000000000000B";
    if (request.target == "/api/v1/runs/" + first + "/comparison?with=" + second) {
      return {.body = R"({"items":[{"run":")" + second + R"x(","text":"0.30 BLEU better than a (p = 0.41)"}]})x"};
    }
    if (request.target == "/api/v1/runs/" + first) {
      return {.body = R"({"id":")" + first + R"(","name":"a","best":{"update":400,"sacrebleu":31.2}})"};
    }
    return {.body = R"({"id":")" + second + R"(","name":"b","best":{"update":1300,"sacrebleu":31.5}})"};
  });
  CLI::App app;
  add_run_compare(app);
  ::testing::internal::CaptureStdout();
  app.parse("compare r_01KAJ00000000000000000000A r_01KAJ00000000000000000000B --server " + server.address());
  EXPECT_EQ(::testing::internal::GetCapturedStdout(),
            "RUN  BEST AT   BLEU\n"
            "a        400  31.20\n"
            "b      1,300  31.50\n"
            "b: 0.30 BLEU better than a (p = 0.41)\n");
  EXPECT_THROW(app.parse("compare r_01KAJ00000000000000000000A"), CLI::ParseError);
}

}  // namespace

}  // namespace babelring
