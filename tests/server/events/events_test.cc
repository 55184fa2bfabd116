#include <gtest/gtest.h>

#include <fstream>
#include <map>
#include <memory>
#include <vector>

#include "base/json.h"
#include "server/events/event_hub.h"
#include "tests/server/client.h"
#include "tests/server/test_server.h"
#include "tests/soon.h"

namespace babelring {
namespace {

using testing::batch_text;
using testing::Client;
using testing::records_path;
using testing::run_id;
using testing::step_record;

std::string subscribe(const std::string& query, const std::string& headers = "") {
  return "GET /api/v1/events?" + query + " HTTP/1.1\r\nHost: localhost\r\n" + testing::authorization() + headers +
         "\r\n";
}

/// All that is due.
std::string taken(const std::shared_ptr<http::EventSource>& reader) {
  std::string text;
  for (;;) {
    const auto frames = reader->take();
    if (frames.size() == 0) return text;
    text.append(frames.text).append(frames.tail());
  }
}

std::string last_id(const std::string& text) {
  const auto at = text.rfind("id: ") + 4;
  return text.substr(at, text.find('\n', at) - at);
}

TEST(Events, StreamsWhatIsIngestedAndResumesWithoutAGap) {
  testing::TestServer server;
  Client stream(server.port());
  stream.send(subscribe("run=" + run_id));
  stream.read_until("retry: 2000");
  Client(server.port()).post(records_path(), batch_text({step_record(1, 1), step_record(2, 2)}));
  const std::string text = stream.read_until("event: metrics");
  EXPECT_NE(text.find("text/event-stream"), std::string::npos);
  EXPECT_NE(text.find("event: state"), std::string::npos);
  const std::string seen = last_id(stream.read_until("\"loss\":[10,5]"));

  Client(server.port()).post(records_path(), batch_text({step_record(3, 4)}));
  Client again(server.port());
  again.send(subscribe("run=" + run_id, "Last-Event-ID: " + seen + "\r\n"));
  const std::string rest = again.read_until("\"loss\":[2.5]");
  EXPECT_EQ(rest.find("\"loss\":[10"), std::string::npos);
  EXPECT_EQ(rest.find("event: reset"), std::string::npos);

  server.restart();
  Client later(server.port());
  later.send(subscribe("run=" + run_id, "Last-Event-ID: " + seen + "\r\n"));
  EXPECT_NE(later.read_until("event: reset").find("event: reset"), std::string::npos);
}

TEST(Events, FilterByTopicAndRun) {
  testing::TestServer server;
  Client stream(server.port());
  stream.send(subscribe("run=" + run_id + "&topic=log"));
  stream.read_until("retry");
  server.events().publish("r_other", "log", "\"other\"");
  server.events().publish(run_id, "state", "\"state\"");
  server.events().publish(run_id, "log", "\"mine\"");
  const std::string text = stream.read_until("\"mine\"");
  EXPECT_EQ(text.find("other"), std::string::npos);
  EXPECT_EQ(text.find("event: state"), std::string::npos);
  EXPECT_EQ(Client(server.port()).get("/api/v1/events?topic=lies").status, 400);
}

TEST(Events, QuietStreamsGetComments) {
  http::Limits limits;
  limits.heartbeat = std::chrono::milliseconds(50);
  testing::TestServer server(limits);
  Client stream(server.port());
  stream.send(subscribe(""));
  EXPECT_NE(stream.read_until("\n:\n\n").find("\n:\n\n"), std::string::npos);
}

TEST(Events, AReaderThatLagsLosesMetricsOnlyAndIsTold) {
  events::EventHub::Limits limits;
  limits.lag_bytes = 1000;
  limits.merge = std::chrono::milliseconds(1);
  events::EventHub hub(limits);
  const auto reader = hub.subscribe("", {}, "");
  taken(reader);
  for (int i = 0; i < 10; ++i) hub.publish("r", "metrics", '"' + std::string(300, 'm') + '"');
  hub.publish("r", "state", "\"kept\"");
  const std::string frames = taken(reader);
  EXPECT_NE(frames.find("event: gap\ndata: {\"dropped\":"), std::string::npos);
  EXPECT_NE(frames.find("kept"), std::string::npos);
  EXPECT_LT(frames.size(), 2000u);
  EXPECT_EQ(taken(reader), "");
}

TEST(Events, AnIdThatFellOutOfTheRingGivesReset) {
  events::EventHub::Limits limits;
  limits.events_a_run = 3;
  events::EventHub hub(limits);
  const auto first = hub.subscribe("", {}, "");
  hub.publish("r", "log", "0");
  const std::string seen = last_id(taken(first));
  hub.publish("r", "log", "1");
  EXPECT_EQ(taken(hub.subscribe("", {}, seen)).find("reset"), std::string::npos);
  for (int i = 2; i < 8; ++i) hub.publish("r", "log", std::to_string(i));
  EXPECT_NE(taken(hub.subscribe("", {}, seen)).find("event: reset"), std::string::npos);
  EXPECT_NE(taken(hub.subscribe("", {}, "garbage")).find("event: reset"), std::string::npos);
  EXPECT_EQ(taken(hub.subscribe("", {}, "")).find("reset"), std::string::npos);
}

TEST(Events, AReaderThatMissedSomeIsToldOnceAndGoesOnWithTheNext) {
  events::EventHub::Limits limits;
  limits.events_a_run = 3;
  events::EventHub hub(limits);
  const auto reader = hub.subscribe("", {}, "");
  taken(reader);
  for (int i = 0; i < 8; ++i) hub.publish("r", "log", std::to_string(i));
  const std::string told = taken(reader);
  EXPECT_NE(told.find("event: reset"), std::string::npos);
  EXPECT_EQ(told.find("event: log"), std::string::npos) << "it fetches what came before";
  hub.publish("r", "log", "8");
  const std::string next = taken(reader);
  EXPECT_EQ(next.find("event: reset"), std::string::npos);
  EXPECT_NE(next.find("event: log\ndata: 8"), std::string::npos);
}

TEST(Events, AreTakenAFewAtATimeAndTheReaderSeesThatMoreAreDue) {
  events::EventHub::Limits limits;
  limits.taken_bytes = 100;
  events::EventHub hub(limits);
  const auto reader = hub.subscribe("", {}, "");
  for (int i = 0; i < 3; ++i) hub.publish("r", "log", '"' + std::string(100, 'x') + '"');
  for (int i = 0; i < 3; ++i) EXPECT_EQ(reader->take().more, i < 2);
}

/// Bytes that the kernel holds because the clients of a port have not taken them.
std::size_t untaken_bytes(std::uint16_t port) {
  std::ifstream in("/proc/net/tcp");
  std::string line, number, local, remote, state, queues;
  std::size_t bytes = 0;
  for (std::getline(in, line); in >> number >> local >> remote >> state >> queues && std::getline(in, line);) {
    if (local.ends_with(fmt::format(":{:04X}", port))) bytes += std::stoul(queues.substr(0, 8), nullptr, 16);
  }
  return bytes;
}

TEST(Events, ThatAClientDoesNotTakeStayWithTheServer) {
  testing::TestServer server;
  Client idle(server.port()), reader(server.port());
  for (Client* one : {&idle, &reader}) {
    one->send(subscribe("topic=log"));
    one->read_until("retry");
  }
  for (int i = 0; i < 3000; ++i) server.events().publish(run_id, "log", '"' + std::string(1000, 'x') + '"');
  server.events().publish(run_id, "log", "\"last\"");
  reader.read_until("\"last\"");
  EXPECT_TRUE(soon([&] { return untaken_bytes(server.port()) > 0; }));
  EXPECT_LT(untaken_bytes(server.port()), 300'000u);
}

TEST(Events, ARingIsBoundedInBytesToo) {
  events::EventHub::Limits limits;
  limits.bytes_a_run = 1000;
  events::EventHub hub(limits);
  const auto first = hub.subscribe("", {}, "");
  hub.publish("r", "log", "0");
  const std::string seen = last_id(taken(first));
  for (int i = 0; i < 3; ++i) hub.publish("r", "log", std::string(300, 'x'));
  EXPECT_EQ(taken(hub.subscribe("", {}, seen)).find("reset"), std::string::npos);
  hub.publish("r", "log", std::string(300, 'x'));
  EXPECT_NE(taken(hub.subscribe("", {}, seen)).find("event: reset"), std::string::npos);
}

TEST(Events, OfARunThatIsSilentAreForgottenWhenOthersReport) {
  events::EventHub::Limits limits;
  limits.age = std::chrono::milliseconds(1);
  events::EventHub hub(limits);
  const auto first = hub.subscribe("r_silent", {}, "");
  hub.publish("r_silent", "log", "0");
  const std::string seen = last_id(taken(first));
  hub.publish("r_silent", "log", "1");
  EXPECT_TRUE(soon([&] {
    hub.publish("r_other", "log", "2");
    return taken(hub.subscribe("r_silent", {}, seen)).find("event: reset") != std::string::npos;
  }));
  EXPECT_EQ(taken(hub.subscribe("r_third", {}, seen)).find("reset"), std::string::npos);
}

json::object data_of(const std::string& frame) {
  const auto at = frame.find("data: ") + 6;
  return parse_json(frame.substr(at, frame.find('\n', at) - at)).value().as_object();
}

/// Texts of the frames of an event in what was taken.
std::vector<std::string> frames_of(const std::string& text, const std::string& event) {
  std::vector<std::string> frames;
  for (std::size_t at = 0; (at = text.find("event: " + event + "\n", at)) != std::string::npos; ++at) {
    frames.push_back(text.substr(at, text.find("\n\n", at) - at));
  }
  return frames;
}

/// Steps of which every 333rd has 64 keys that no other has.
events::MetricFrames hostile_steps() {
  events::MetricFrames steps;
  for (std::int64_t update = 1; update <= 10'000; ++update) {
    events::MetricFrames::Metrics metrics;
    for (int key = 0; key < 32; ++key) metrics.emplace_back(fmt::format("metric_{}", key), update);
    for (int key = 0; update % 333 == 0 && key < 64; ++key) {
      metrics.emplace_back(fmt::format("memory_bytes.{}.{}", update, key), update);
    }
    steps.add(update, 1, metrics);
  }
  return steps;
}

TEST(Events, OfNobodysInterestAreNotMade) {
  events::EventHub hub;
  EXPECT_FALSE(hub.wants("r", "log"));
  hub.publish("r", "log", "0");
  hub.publish_steps("r", 1, 0, hostile_steps());
  const auto reader = hub.subscribe("r", {"log"}, "");
  EXPECT_TRUE(hub.wants("r", "log"));
  EXPECT_FALSE(hub.wants("r", "metrics"));
  EXPECT_FALSE(hub.wants("r_other", "log"));
  hub.publish("r", "state", "1");
  hub.publish("r_other", "log", "2");
  EXPECT_TRUE(soon([&] { return hub.bytes() == 0; }));
  hub.publish("r", "log", "3");
  EXPECT_GT(hub.bytes(), 0u);
  EXPECT_NE(taken(reader).find("data: 3"), std::string::npos);
  // Who resumes is told of what was not made, of the topics that it wants.
  const std::string seen = last_id(taken(hub.subscribe("r", {"log"}, "garbage")));
  EXPECT_FALSE(hub.wants("r", "state"));
  EXPECT_EQ(taken(hub.subscribe("r", {"log"}, seen)).find("reset"), std::string::npos);
  EXPECT_NE(taken(hub.subscribe("r", {"log", "state"}, seen)).find("event: reset"), std::string::npos);
}

TEST(Events, AreMadeForAWhileAfterTheLastReaderLeft) {
  events::EventHub::Limits limits;
  limits.linger = std::chrono::hours(1);
  events::EventHub hub(limits);
  auto reader = hub.subscribe("r", {"log"}, "");
  hub.publish("r", "log", "0");
  const std::string seen = last_id(taken(reader));
  reader.reset();
  hub.publish("r", "log", "1");
  const std::string missed = taken(hub.subscribe("r", {"log"}, seen));
  EXPECT_NE(missed.find("data: 1"), std::string::npos);
  EXPECT_EQ(missed.find("reset"), std::string::npos);

  limits.linger = std::chrono::milliseconds(0);
  events::EventHub forgetful(limits);
  forgetful.subscribe("r", {"log"}, "").reset();
  EXPECT_FALSE(forgetful.wants("r", "log"));
}

TEST(Events, AFrameOfMetricsHasItsOwnKeysOnly) {
  events::MetricFrames steps = hostile_steps();
  std::size_t frames = 0, values = 0;
  std::int64_t next = 1;
  while (!steps.empty()) {
    const json::object data = parse_json(steps.take_text("r", 1, 0)).value().as_object();
    ++frames;
    const auto& updates = data.at("step").as_array();
    for (const auto& update : updates) EXPECT_EQ(update.as_int64(), next++);
    EXPECT_EQ(data.at("time_ms").as_array().size(), updates.size());
    for (const auto& [key, column] : data.at("series").as_object()) {
      EXPECT_EQ(column.as_array().size(), updates.size());
      for (const auto& value : column.as_array()) EXPECT_FALSE(value.is_null());
      values += column.as_array().size();
    }
    EXPECT_LE(updates.size() * data.at("series").as_object().size(), events::MetricFrames::max_frame_values);
  }
  EXPECT_EQ(next, 10'001);
  EXPECT_EQ(values, 10'000u * 32 + 30 * 64);
  EXPECT_LT(frames, 500u);
  EXPECT_EQ(steps.bytes(), 0u);
}

TEST(Events, GatheredMetricsAreJoinedWhereTheirKeysAreEqual) {
  events::EventHub::Limits limits;
  limits.merge = std::chrono::milliseconds(100);
  events::EventHub hub(limits);
  const auto reader = hub.subscribe("r", {}, "");
  for (const std::int64_t update : {1, 2, 3}) {
    events::MetricFrames steps;
    steps.add(update, update, {{"loss", 0.5}});
    if (update == 3) steps.add(4, 4, {{"loss", 0.25}, {"rare", 1}});
    hub.publish_steps("r", 1, 0, std::move(steps));
  }
  std::string text;
  EXPECT_TRUE(soon([&] { return (text += taken(reader)).find("rare") != std::string::npos; }));
  const auto frames = frames_of(text, "metrics");
  ASSERT_GE(frames.size(), 2u);
  EXPECT_EQ(data_of(frames.front()).at("series").as_object().size(), 1u);
  EXPECT_EQ(to_text(data_of(frames.back()).at("step")), "[4]");
}

TEST(Events, WhatIsGatheredIsBoundedInBytes) {
  events::EventHub::Limits limits;
  limits.merge = std::chrono::hours(1);
  limits.pending_bytes = 3 << 20;
  events::EventHub hub(limits);
  const auto reader = hub.subscribe("", {}, "");
  events::MetricFrames small;
  small.add(1, 1, {{"loss", 1}});
  hub.publish_steps("r_other", 1, 0, small);
  for (std::int64_t rank = 0; rank < 8; ++rank) {
    hub.publish_steps("r", 1, rank, hostile_steps());
    EXPECT_LE(hub.bytes(), limits.pending_bytes);
    EXPECT_GE(hub.bytes(), small.bytes());
  }
  EXPECT_GT(hub.dropped(), 0u);
}

TEST(Events, AReaderIsToldThatGatheredMetricsWereDropped) {
  events::EventHub::Limits limits;
  limits.merge = std::chrono::milliseconds(1);
  limits.pending_bytes = 100;
  events::EventHub hub(limits);
  const auto reader = hub.subscribe("r", {"metrics"}, "");
  hub.publish_steps("r", 1, 0, hostile_steps());
  std::string text;
  EXPECT_TRUE(soon([&] { return (text += taken(reader)).find("event: gap") != std::string::npos; }));
  EXPECT_GT(data_of(frames_of(text, "gap").front()).at("dropped").as_int64(), 300);
}

TEST(Events, RingsOfAllRunsAreBoundedAndTheLargestLoses) {
  events::EventHub::Limits limits;
  limits.bytes = 100'000;
  events::EventHub hub(limits);
  const auto reader = hub.subscribe("", {}, "");
  hub.publish("r_quiet", "log", "0");
  const std::string seen = last_id(taken(reader));
  hub.publish("r_quiet", "log", "1");
  hub.publish("r_loud", "log", "2");
  for (int i = 0; i < 1000; ++i) hub.publish("r_loud", "log", '"' + std::string(1000, 'x') + '"');
  EXPECT_LE(hub.bytes(), limits.bytes);
  const std::string quiet = taken(hub.subscribe("r_quiet", {}, seen));
  EXPECT_NE(quiet.find("data: 1"), std::string::npos);
  EXPECT_EQ(quiet.find("reset"), std::string::npos);
  EXPECT_NE(taken(hub.subscribe("r_loud", {}, seen)).find("event: reset"), std::string::npos);
}

TEST(Events, RememberOfHowManyRunsTheyWereMissedInAFixedNumber) {
  events::MissedEvents missed;
  const auto count = static_cast<std::uint64_t>(events::MissedEvents::max_entries);
  for (std::uint64_t i = 1; i <= 2 * count; ++i) missed.note("r" + std::to_string(i), "log", i);
  EXPECT_EQ(missed.floor(), count);
  EXPECT_EQ(missed.newest("r1", {}), 0u);
  EXPECT_EQ(missed.newest("r" + std::to_string(2 * count), {"log"}), 2 * count);
  EXPECT_EQ(missed.newest("r" + std::to_string(2 * count), {"metrics"}), 0u);
  EXPECT_EQ(missed.newest("", {}), 2 * count);
}

TEST(Events, ABatchWakesWhoWantsItOnce) {
  events::EventHub hub;
  std::map<std::string, int> woken;
  const auto listen = [&](const std::string& name, const std::string& run, std::set<std::string> topics) {
    auto reader = hub.subscribe(run, std::move(topics), "");
    reader->on_ready([&woken, name] { ++woken[name]; });
    return reader;
  };
  const auto all = listen("all", "", {}), mine = listen("mine", "r", {"log"});
  const auto states = listen("states", "r", {"state"}), other = listen("other", "r_other", {});
  std::vector<events::EventHub::Message> lines(1000, {"log", "\"line\""});
  hub.publish("r", lines);
  EXPECT_EQ(woken, (std::map<std::string, int>{{"all", 1}, {"mine", 1}}));
  hub.publish("r", lines);  // they know already that there is something to take
  EXPECT_EQ(woken, (std::map<std::string, int>{{"all", 1}, {"mine", 1}}));
  EXPECT_EQ(frames_of(taken(mine), "log").size(), 2000u);
  hub.publish("r", lines);
  EXPECT_EQ(woken, (std::map<std::string, int>{{"all", 1}, {"mine", 2}}));
  EXPECT_EQ(frames_of(taken(all), "log").size(), 3000u);
  EXPECT_EQ(taken(states), "retry: 2000\n\n");
  EXPECT_EQ(taken(other), "retry: 2000\n\n");
}

TEST(Events, AreTakenAFewAtATimeAndALargeOneIsNotCopied) {
  events::EventHub hub;
  const auto first = hub.subscribe("r", {}, ""), second = hub.subscribe("", {}, "");
  for (int i = 0; i < 1000; ++i) hub.publish("r", "log", '"' + std::string(1000, 'x') + '"');
  EXPECT_LE(first->take().size(), 20'000u);
  EXPECT_EQ(frames_of(taken(second), "log").size(), 1000u);
  taken(first);
  hub.publish("r", "log", '"' + std::string(1 << 20, 'x') + '"');
  hub.publish("r", "log", "\"after\"");
  const auto large = first->take(), same = second->take();
  ASSERT_NE(large.last, nullptr);
  EXPECT_EQ(large.last, same.last);
  EXPECT_NE(taken(first).find("after"), std::string::npos);
}

TEST(Events, OfALargeSizeReachTheirReaderWhole) {
  testing::TestServer server;
  Client stream(server.port());
  stream.send(subscribe("run=" + run_id + "&topic=log"));
  stream.read_until("retry");
  server.events().publish(run_id, "log", '"' + std::string(3 << 20, 'x') + "end\"");
  server.events().publish(run_id, "log", "\"after\"");
  const std::string text = stream.read_until("\"after\"");
  EXPECT_NE(text.find(std::string(3 << 20, 'x') + "end\"\n\nid: "), std::string::npos);
}

TEST(Events, AreEightOfATokenAtMost) {
  http::Limits limits;
  limits.heartbeat = std::chrono::hours(1);  // would find out who has left
  testing::TestServer server(limits);
  std::vector<std::unique_ptr<Client>> streams;
  for (int i = 0; i < 8; ++i) {
    streams.push_back(std::make_unique<Client>(server.port()));
    streams.back()->send(subscribe(""));
    streams.back()->read_until("retry");
  }
  const auto refused = Client(server.port()).get("/api/v1/events");
  EXPECT_EQ(refused.status, 503);
  EXPECT_NE(refused.body.find("too_many_streams"), std::string::npos);
  EXPECT_TRUE(refused.headers.contains("retry-after"));
  Client other(server.port(), server.token(http::Scope::read));
  other.send("GET /api/v1/events HTTP/1.1\r\nHost: localhost\r\n" +
             testing::authorization(server.token(http::Scope::read)) + "\r\n");
  EXPECT_NE(other.read_until("retry").find("retry"), std::string::npos);
  // Whoever leaves makes room.
  streams.pop_back();
  EXPECT_TRUE(soon([&] { return server.events().subscribers() == 8; }));
  Client again(server.port());
  again.send(subscribe(""));
  EXPECT_NE(again.read_until("retry").find("200 OK"), std::string::npos);
}

TEST(Events, AreBoundedInNumberAndEndWithTheServer) {
  events::EventHub::Limits limits;
  limits.subscribers = 1;
  http::Limits waits;
  waits.heartbeat = waits.drain = std::chrono::hours(1);
  testing::TestServer server(waits, limits);
  Client first(server.port()), second(server.port());
  first.send(subscribe(""));
  first.read_until("retry");
  EXPECT_EQ(second.get("/api/v1/events").status, 503);
  server.stop();
  EXPECT_TRUE(first.closed());
}

}  // namespace
}  // namespace babelring
