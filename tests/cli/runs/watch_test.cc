#include "cli/runs/watch.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <boost/json/object.hpp>
#include <csignal>
#include <future>
#include <sstream>

#include "base/failure.h"
#include "base/json.h"
#include "tests/client/scripted_server.h"
#include "tests/soon.h"

namespace babelring {
namespace {

using testing::HasSubstr;
using testing::Not;
using testing::ThrowsMessage;

const std::string id = "r_01KAJ00000000000000000000A";

std::string run_json(const std::string& state, int update, const std::string& detail = "") {
  return R"({"id":")" + id + R"(","name":"toy","state":")" + state + R"(","attempt":1,"max_updates":200,"update":)" +
         std::to_string(update) + R"(,"step_ms":100,"loss":5.5,"detail":")" + detail + R"("})";
}

std::string event(const std::string& name, const std::string& data, int number) {
  return "id: 1-" + std::to_string(number) + "\nevent: " + name + "\ndata: " + data + "\n\n";
}

const std::string metrics =
    R"({"run":"r","attempt":1,"rank":0,"step":[50],"series":{"loss":[4.25],"step_ms":[200],"update_target_tokens":[1000]}})";

/// A stream that breaks once, and goes on to the run's end.
ScriptedServer::Script story(const std::string& end) {
  const auto streams = std::make_shared<std::atomic<int>>(0);
  return [=](const ScriptedRequest& request) -> ScriptedAnswer {
    if (!request.target.starts_with("/api/v1/events")) return {.body = run_json("running", 10)};
    if ((*streams)++ == 0) {
      return {
          .pieces = {
              "retry: 1\n\n", event("metrics", metrics, 1),
              event(
                  "eval",
                  R"({"set":"valid","update":50,"loss":3.5,"sacrebleu":21.5,"teacher_forced_bleu":28.25,"best":true})",
                  2),
              event("eval", R"({"set":"train","update":50,"loss":3.25})", 2)}};
    }
    EXPECT_EQ(request.header("last-event-id"), "1-2");
    return {.pieces = {": hello\n\n" + event("checkpoint", R"({"id":"c_1","update":50,"best":true})", 3) +
                       event("state", run_json(end, 60, "why"), 4)}};
  };
}

TEST(Watch, PrintsPlainLinesAcrossALostConnection) {
  ScriptedServer server(story("succeeded"));
  std::ostringstream out;
  watch_run({server.address(), ""}, id, false, {.out = out});
  EXPECT_THAT(out.str(), HasSubstr("toy (" + id + ") is running\n"));
  EXPECT_THAT(out.str(), HasSubstr("update 10/200 (5.0 %)  loss 5.5000  19 s left\n"));
  EXPECT_THAT(out.str(), HasSubstr("validation on valid after update 50: loss 3.5000, sacreBLEU 21.50, teacher-forced "
                                   "BLEU 28.25, the best so far\n"));
  EXPECT_THAT(out.str(), HasSubstr("training sample after update 50: loss 3.2500\n"));
  EXPECT_THAT(out.str(), HasSubstr("the stream ended; trying again\nconnected again\n"));
  EXPECT_THAT(out.str(), HasSubstr("checkpoint c_1 after update 50 (best)\n"));
  EXPECT_TRUE(out.str().ends_with("run toy (" + id + ") succeeded: why\n")) << out.str();
  EXPECT_THAT(out.str(), Not(HasSubstr("\x1b")));
}

TEST(Watch, DrawsABarOnATerminal) {
  ScriptedServer server(story("stopped"));
  std::ostringstream out;
  watch_run({server.address(), ""}, id, false, {.out = out, .live = true, .colour = false, .width = 100});
  EXPECT_THAT(
      out.str(),
      HasSubstr(
          "\r\x1b[K[#######.......................]  25 %  update 50/200  loss 4.2500  5,000 tokens/s  17 s left"));
}

TEST(Watch, AFailedRunIsAFailure) {
  ScriptedServer server(story("failed"));
  std::ostringstream out;
  EXPECT_THAT([&] { watch_run({server.address(), ""}, id, false, {.out = out}); },
              ThrowsMessage<Failure>("run toy (" + id + ") failed: why"));
}

TEST(Watch, PrintsEventsAsJsonLines) {
  ScriptedServer server(story("succeeded"));
  std::ostringstream out;
  watch_run({server.address(), ""}, id, true, {.out = out});
  std::istringstream lines(out.str());
  std::vector<std::string> names;
  for (std::string line; std::getline(lines, line);) {
    const auto value = parse_json(line);
    ASSERT_TRUE(value.ok()) << line;
    names.emplace_back(value->at("event").as_string());
  }
  EXPECT_THAT(names, testing::ElementsAre("state", "state", "metrics", "eval", "eval", "state", "checkpoint", "state"));
}

TEST(Watch, CtrlCStopsOnlyTheWatching) {
  ScriptedServer server([](const ScriptedRequest& request) -> ScriptedAnswer {
    if (!request.target.starts_with("/api/v1/events")) return {.body = run_json("running", 10)};
    return {.pieces = {"retry: 1\n\n"}, .hold = true};
  });
  std::ostringstream out;
  auto watched = std::async(std::launch::async, [&] { watch_run({server.address(), ""}, id, false, {.out = out}); });
  ASSERT_TRUE(server.wait_for_requests(3)) << "the run, the stream, and the run again";
  ::kill(::getpid(), SIGINT);
  ASSERT_EQ(watched.wait_for(longest_wait), std::future_status::ready);
  watched.get();
  EXPECT_THAT(out.str(), HasSubstr("no longer watching; the run continues (`nmt run stop " + id + "` ends it)\n"));
  for (const ScriptedRequest& request : server.requests()) EXPECT_EQ(request.method, "GET");
}

TEST(Watch, AnEndedRunIsOnlyReported) {
  ScriptedServer server(
      [](const ScriptedRequest&) { return ScriptedAnswer{.body = run_json("succeeded", 200, "max_updates")}; });
  std::ostringstream out;
  watch_run({server.address(), ""}, id, false, {.out = out});
  EXPECT_EQ(out.str(), "run toy (" + id + ") succeeded: max_updates\n");
  EXPECT_EQ(server.requests().size(), 1u);
}

using testing::HasSubstr;
using testing::Not;

json::object object(const std::string& text) {
  return parse_json(text).value().as_object();
}

TEST(RunView, ANewAttemptMayRestartAndOtherRanksAreIgnored) {
  std::ostringstream out;
  RunView view({.out = out}, std::chrono::milliseconds(0));
  view.run(object(R"({"id":"r","name":"toy","state":"running","attempt":1,"update":100,"max_updates":200})"));
  view.metrics(object(R"({"attempt":1,"rank":1,"step":[150],"series":{}})"));
  EXPECT_THAT(out.str(), Not(HasSubstr("150")));
  view.run(object(R"({"id":"r","name":"toy","state":"restarting","attempt":2,"update":80,"max_updates":200})"));
  EXPECT_THAT(out.str(), HasSubstr("is restarting, attempt 2"));
  view.metrics(object(R"({"attempt":2,"rank":0,"step":[81],"series":{"loss":[null]}})"));
  EXPECT_THAT(out.str(), HasSubstr("update 81/200"));
}

TEST(RunView, TheOutcomeCountsRestartsAfterFaults) {
  std::ostringstream out;
  RunView view({.out = out}, std::chrono::milliseconds(0));
  view.run(object(R"({"id":"r","name":"toy","state":"succeeded","detail":"20e","restarts":2,"max_restarts":3})"));
  EXPECT_EQ(view.outcome(), "run toy (r) succeeded after 2 of 3 restarts: 20e");
  view.run(object(R"({"id":"r","name":"toy","state":"succeeded","detail":"20e","restarts":1,"max_restarts":null})"));
  EXPECT_EQ(view.outcome(), "run toy (r) succeeded after 1 fault: 20e") << "started by hand";
  view.run(object(R"({"id":"r","name":"toy","state":"succeeded","detail":"20e","restarts":0,"max_restarts":3})"));
  EXPECT_EQ(view.outcome(), "run toy (r) succeeded: 20e");
}

TEST(RunView, WithoutALimitThereIsNoBarAndNoTimeLeft) {
  std::ostringstream out;
  RunView view({.out = out, .live = true, .colour = false, .width = 40}, std::chrono::milliseconds(0));
  view.run(object(R"({"id":"r","name":"toy","state":"running","attempt":1,"update":100,"max_updates":0,"step_ms":5})"));
  EXPECT_THAT(out.str(), HasSubstr("\r\x1b[Kupdate 100"));
  EXPECT_THAT(out.str(), Not(HasSubstr("left")));
}

TEST(RunView, UsesTheWorkersProgress) {
  std::ostringstream out;
  RunView view({.out = out, .live = true}, std::chrono::milliseconds(0));
  view.run(object(R"({"id":"r","name":"toy","state":"running","attempt":1,"update":100,"max_updates":0,"step_ms":5,
    "eta_seconds":300,"progress":{"fraction":0.5,"seconds_left":300,"end":"20 epochs","at_latest":true}})"));
  EXPECT_THAT(out.str(), HasSubstr("[###############...............]  50 %  update 100  5 min 0 s left at most"));
  out.str("");
  view.metrics(
      object(R"({"attempt":1,"rank":0,"step":[101],"series":{"fraction_done":[0.6],"seconds_left":[200.2]}})"));
  EXPECT_THAT(out.str(), HasSubstr(" 60 %  update 101  3 min 20 s left at most"));
}

TEST(RunView, ReportsAHealthProblemOnceAndItsEnd) {
  std::ostringstream out;
  RunView view({.out = out}, std::chrono::milliseconds(0));
  const auto run = [](const std::string& level) {
    return object(R"({"id":"r","name":"toy","state":"running","attempt":1,"update":9,"health":{"level":")" + level +
                  R"(","headline":"Not learning","action":"lower the rate","parts":[]}})");
  };
  view.run(run("good"));
  EXPECT_THAT(out.str(), Not(HasSubstr("Not learning")));
  view.run(run("bad"));
  EXPECT_THAT(out.str(), HasSubstr("Not learning; lower the rate\n"));
  out.str("");
  view.run(run("bad"));
  EXPECT_THAT(out.str(), Not(HasSubstr("Not learning")));
  view.run(run("good"));
  EXPECT_THAT(out.str(), HasSubstr("healthy again\n"));
}

}  // namespace

}  // namespace babelring
