#include "cli/runs/run_commands.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <sstream>

#include "tests/client/scripted_server.h"

namespace babelring {
namespace {

using testing::HasSubstr;

const std::string log_run = "r_01KAJ00000000000000000000A";

std::string log_page(const std::string& text, const std::string& cursor) {
  const std::string line =
      R"({"line":1,"rank":0,"attempt":1,"time":"2026-01-01T00:00:00.000Z","level":"info","text":")";
  return R"({"items":[)" + (text.empty() ? "" : line + text + "\"}") + R"(],"next_cursor":")" + cursor + "\"}";
}

/// A run that logs a second line and ends. `stream`: the answer to who asks for events.
ScriptedServer::Script growing_log(const ScriptedAnswer& stream) {
  const auto states = std::make_shared<std::atomic<int>>(0), pages = std::make_shared<std::atomic<int>>(0);
  return [=](const ScriptedRequest& request) -> ScriptedAnswer {
    if (request.target.starts_with("/api/v1/events")) return stream;
    if (!request.target.starts_with("/api/v1/runs/" + log_run + "/logs")) {
      return {.body = R"({"state":")" + std::string((*states)++ < 2 ? "running" : "succeeded") + "\"}"};
    }
    const int page = (*pages)++;
    if (page == 0) return {.body = log_page("first", "p1.0")};
    EXPECT_THAT(request.target, HasSubstr(page == 1 ? "cursor=p1.0" : "cursor=p2.0"));
    return {.body = page == 1 ? log_page("second", "p2.0") : log_page("", "p2.0")};
  };
}

std::string followed(const ScriptedAnswer& stream, std::chrono::milliseconds poll_interval) {
  ScriptedServer server(growing_log(stream));
  std::ostringstream out;
  LogRequest request;
  request.run = log_run;
  request.follow = true;
  request.poll_interval = poll_interval;
  print_logs({server.address(), ""}, request, false, {.out = out});
  return out.str();
}

const std::string both_lines =
    "2026-01-01T00:00:00.000Z [rank 0] info: first\n2026-01-01T00:00:00.000Z [rank 0] info: second\n";

TEST(Logs, AreReadAfterAnEvent) {
  // Whoever asked only once an hour would not be done within the test's time.
  const ScriptedAnswer stream = {.pieces = {"retry: 1\n\n", "id: 1-1\nevent: log\ndata: {}\n\n"}};
  EXPECT_EQ(followed(stream, std::chrono::hours(1)), both_lines);
}

TEST(Logs, AreFollowedAcrossAServerRestart) {
  const auto asked = std::make_shared<std::atomic<int>>(0);
  const ScriptedServer::Script log = growing_log({.status = 403, .body = R"({"code":"scope_insufficient"})"});
  ScriptedServer server([=](const ScriptedRequest& request) -> ScriptedAnswer {
    const bool of_state = request.target == "/api/v1/runs/" + log_run;
    const int number = of_state ? (*asked)++ : 0;
    if (number == 1) return {.status = 500};
    if (number == 2) return {.status = 503, .body = R"({"detail":"shutting down"})"};
    if (number > 2 && number < 8) return {.cut_after = 0};  // more often than a single question is repeated
    return log(request);
  });
  std::ostringstream out;
  LogRequest request;
  request.run = log_run;
  request.follow = true;
  request.poll_interval = std::chrono::milliseconds(1);
  print_logs({server.address(), ""}, request, false, {.out = out});
  EXPECT_EQ(out.str(), both_lines);
}

TEST(Logs, ArePolledWithoutAStream) {
  const ScriptedAnswer refused = {.status = 403, .body = R"({"code":"scope_insufficient","detail":"no"})"};
  EXPECT_EQ(followed(refused, std::chrono::milliseconds(1)), both_lines);
}

}  // namespace
}  // namespace babelring
