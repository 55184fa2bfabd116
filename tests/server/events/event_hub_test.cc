#include <gtest/gtest.h>

#include <fstream>

#include "tests/server/events/events_fixture.h"

namespace babelring {
namespace {

using testing::batch_text;
using testing::Client;
using testing::frames_of;
using testing::last_id;
using testing::records_path;
using testing::run_id;
using testing::step_record;
using testing::subscribe;
using testing::taken;

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

TEST(Events, ReachTheirReaderWholeIfLarge) {
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
