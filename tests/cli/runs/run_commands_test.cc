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

TEST(RunEdit, IsAMergePatchOfWhatIsGiven) {
  EXPECT_EQ(to_text(edit_patch({.name = "big", .labels = {"team=mt"}, .removed_labels = {"trial"}})),
            R"({"name":"big","labels":{"team":"mt","trial":null}})");
  EXPECT_EQ(to_text(edit_patch({.note = "", .max_restarts = 3})), R"({"notes":"","max_restarts":3})");
  EXPECT_THAT([] { edit_patch({}); }, ThrowsMessage<UsageFailure>(HasSubstr("expected at least one of --name")));
  EXPECT_THAT([] { edit_patch({.labels = {"team"}}); },
              ThrowsMessage<UsageFailure>("--label: expected KEY=VALUE, found 'team'"));
  EXPECT_THAT([] { edit_patch({.labels = {"a=1"}, .removed_labels = {"a"}}); },
              ThrowsMessage<UsageFailure>("--remove-label a: --label sets a, too"));
}

TEST(RunEdit, ChangesNothingThatSomebodyElseHasChanged) {
  const std::string id = "r_01KAJ00000000000000000000A";
  ScriptedServer server([&](const ScriptedRequest& request) -> ScriptedAnswer {
    if (request.method == "GET") return {.body = R"({"id":")" + id + "\"}", .headers = {R"(ETag: "state-body")"}};
    return {.status = 412, .body = R"({"detail":"the run has changed"})"};
  });
  ApiClient api({server.address(), ""});
  EXPECT_THAT([&] { patch_run(api, id, {{"archived", true}}); },
              ThrowsMessage<ServerRefusal>("server says 412: the run has changed"));
  ASSERT_EQ(server.requests().size(), 2u) << "it is not sent again";
  const ScriptedRequest patch = server.requests().back();
  EXPECT_EQ(patch.method + " " + patch.target, "PATCH /api/v1/runs/" + id);
  EXPECT_EQ(patch.header("if-match"), R"("state-body")");
  EXPECT_EQ(patch.header("content-type"), "application/merge-patch+json");
  EXPECT_EQ(patch.body, R"({"archived":true})");
}

TEST(WebhookCommand, ListsOfAlertsAndRunsLeaveTheNameAlone) {
  for (const char* list : {"--alerts failed,silent", "--runs toy-big"}) {
    ScriptedServer server(runs);
    CLI::App app;
    add_webhook(app);
    const std::string command =
        fmt::format("webhook add --kind json --url http://x {} ops --server {}", list, server.address());
    EXPECT_THAT([&] { app.parse(command); }, ThrowsMessage<std::runtime_error>(HasSubstr("no run"))) << command;
  }
}

}  // namespace

}  // namespace babelring
