#include "client/event_stream.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <future>

#include "base/clock.h"
#include "client/problem.h"
#include "tests/client/scripted_server.h"
#include "tests/soon.h"

namespace babelring {
namespace {

using namespace std::chrono_literals;
using testing::ElementsAre;

const EventStream::Options quick{.silence = 600s, .first_retry = 1ms, .max_backoff = 10ms};

TEST(EventStream, ResumesAfterTheLastEvent) {
  ScriptedServer server([](const ScriptedRequest& request) -> ScriptedAnswer {
    switch (request.number) {
      case 0:
        return {.pieces = {"retry: 1\n\n", "id: 7-1\ndata: a\n\nid: 7-2\ndata: b\n\nid: 7-3\ndata: ha"}};
      case 1:
        return {.status = 503, .body = R"({"detail":"too many event streams are open"})"};
      case 2:
        return {.pieces = {"id: 7-3\ndata: c\n\n"}};
      default:
        return {.pieces = {"id: 7-4\nevent: last\ndata: d\n\n"}, .hold = true};
    }
  });
  EventStream stream({server.address(), "t0ken"}, "/api/v1/events?run=r", quick);
  std::vector<std::string> events, losses;
  int connections = 0;
  stream.follow({.on_event =
                     [&](const ServerEvent& event) {
                       events.push_back(event.data);
                       return event.name != "last";
                     },
                 .on_connected = [&] { ++connections; },
                 .on_lost = [&](const std::string& why) { losses.push_back(why); }});
  EXPECT_THAT(events, ElementsAre("a", "b", "c", "d"));
  EXPECT_EQ(connections, 3);
  ASSERT_EQ(losses.size(), 2u) << "one line for a loss, however often it is tried";
  EXPECT_EQ(losses[0], "the stream ended");
  std::vector<std::string> asked;
  for (const ScriptedRequest& request : server.requests()) {
    EXPECT_EQ(request.header("accept"), "text/event-stream");
    EXPECT_EQ(request.header("authorization"), "Bearer t0ken");
    asked.push_back(request.header("last-event-id"));
  }
  EXPECT_THAT(asked, ElementsAre("", "7-2", "7-2", "7-3"));
}

TEST(EventStream, SilenceCountsAsALoss) {
  ScriptedServer server([](const ScriptedRequest& request) -> ScriptedAnswer {
    if (request.header("last-event-id").empty()) return {.pieces = {"id: 7-1\ndata: a\n\n"}, .hold = true};
    return {.pieces = {"id: 7-2\nevent: last\ndata: b\n\n"}, .hold = true};
  });
  EventStream stream({server.address(), ""}, "/", {.silence = 300ms, .first_retry = 1ms, .max_backoff = 10ms});
  std::vector<std::string> events;
  int losses = 0;
  stream.follow({.on_event =
                     [&](const ServerEvent& event) {
                       events.push_back(event.data);
                       return event.name != "last";
                     },
                 .on_connected = {},
                 .on_lost = [&](const std::string&) { ++losses; }});
  EXPECT_THAT(events, ElementsAre("a", "b"));
  EXPECT_GE(losses, 1);
}

TEST(EventStream, KeepsTheMaximumDelayAfterManyRetries) {
  constexpr int steady = 66, tries = 86;  // more often than a wait that doubles fits into 64 bits
  const Stopwatch watch;
  std::atomic<double> steady_ms = 0;
  ScriptedServer server([&](const ScriptedRequest& request) -> ScriptedAnswer {
    if (request.number == steady) steady_ms = watch.elapsed_ms();
    if (request.number < tries) return {.status = 503};
    return {.pieces = {"event: last\ndata: d\n\n"}, .hold = true};
  });
  EventStream stream({server.address(), ""}, "/", {.silence = 600s, .first_retry = 1ms, .max_backoff = 5ms});
  stream.follow({.on_event = [](const ServerEvent&) { return false; }, .on_connected = {}, .on_lost = {}});
  EXPECT_GE(watch.elapsed_ms() - steady_ms, 5 * (tries - steady));
}

TEST(EventStream, APermanentRefusalIsThrown) {
  ScriptedServer server(
      [](const ScriptedRequest&) { return ScriptedAnswer{.status = 404, .body = R"({"detail":"no run 'r'"})"}; });
  EventStream stream({server.address(), ""}, "/", quick);
  EXPECT_THROW(stream.follow({.on_event = [](const ServerEvent&) { return true; }, .on_connected = {}, .on_lost = {}}),
               ServerRefusal);
  EXPECT_EQ(server.requests().size(), 1u);
}

TEST(EventStream, EndsAtOnceWhileListeningOrWaiting) {
  for (const bool answers : {true, false}) {
    ScriptedServer server([&](const ScriptedRequest&) {
      return answers ? ScriptedAnswer{.pieces = {"data: x\n\n"}, .hold = true} : ScriptedAnswer{.status = 500};
    });
    EventStream stream({server.address(), ""}, "/", {.silence = 600s, .first_retry = 600s, .max_backoff = 600s});
    auto followed = std::async(std::launch::async, [&] {
      stream.follow({.on_event = [](const ServerEvent&) { return true; }, .on_connected = {}, .on_lost = {}});
    });
    ASSERT_TRUE(server.wait_for_requests(1));
    stream.end();
    ASSERT_EQ(followed.wait_for(patience), std::future_status::ready);
  }
}

}  // namespace
}  // namespace babelring
