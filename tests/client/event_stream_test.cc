#include "client/event_stream.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <future>
#include <vector>

#include "base/clock.h"
#include "client/api_client.h"
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
    ASSERT_EQ(followed.wait_for(longest_wait), std::future_status::ready);
  }
}

std::vector<std::string> read_all(EventReader& reader, std::string_view text, std::size_t piece) {
  std::vector<std::string> events;
  for (std::size_t at = 0; at < text.size(); at += piece) {
    reader.feed(text.substr(at, piece), [&](const ServerEvent& event) {
      events.push_back(event.name + "=" + event.data);
      return true;
    });
  }
  return events;
}

TEST(EventReader, ReadsEventsWithAnyChunksAndLineEnds) {
  const std::string text =
      "retry: 2000\n\n: a comment\nid: 3-1\nevent: state\ndata: {\"a\":1}\n\n"
      "data:one\r\ndata: two\r\n\r\nevent: empty\n\nid\rdata\r\rid: 3-9\ndata: x\n\ndata: not ended\n";
  const std::vector<std::string> expected = {"state={\"a\":1}", "message=one\ntwo", "message=", "message=x"};
  for (std::size_t piece = 1; piece <= text.size(); ++piece) {
    EventReader reader;
    EXPECT_EQ(read_all(reader, text, piece), expected) << piece;
    EXPECT_EQ(reader.last_id(), "3-9");
    EXPECT_EQ(reader.retry(), std::chrono::milliseconds(2000));
  }
}

TEST(EventReader, AnIdCountsAfterItsEventIsComplete) {
  EventReader reader;
  read_all(reader, "id: 1\ndata: x\n\nid: 2\ndata: half", 5);
  EXPECT_EQ(reader.last_id(), "1");
  reader.restart();
  EXPECT_EQ(read_all(reader, "data: y\n\n", 3), std::vector<std::string>{"message=y"});
  EXPECT_EQ(reader.last_id(), "1");
}

TEST(EventReader, InvalidRetryIsIgnoredAndLongRetryIsBounded) {
  EventReader reader;
  read_all(reader, "retry: soon\n\n", 99);
  EXPECT_FALSE(reader.retry().has_value());
  read_all(reader, "retry: 999999999\n\n", 99);
  EXPECT_EQ(reader.retry(), std::chrono::milliseconds(60000));
}

TEST(EventReader, EndsOnRequest) {
  EventReader reader;
  int seen = 0;
  EXPECT_FALSE(reader.feed("data: 1\n\ndata: 2\n\n", [&](const ServerEvent&) { return ++seen < 1; }));
  EXPECT_EQ(seen, 1);
}

}  // namespace

}  // namespace babelring
