#include <gtest/gtest.h>

#include <memory>
#include <vector>

#include "server/api/event_hub.h"
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
  api::EventHub::Limits limits;
  limits.lag_bytes = 1000;
  limits.merge = std::chrono::milliseconds(1);
  api::EventHub hub(limits);
  const auto reader = hub.subscribe("", {}, "");
  reader->take();
  for (int i = 0; i < 10; ++i) hub.publish("r", "metrics", '"' + std::string(300, 'm') + '"');
  hub.publish("r", "state", "\"kept\"");
  const std::string frames = reader->take();
  EXPECT_NE(frames.find("event: gap\ndata: {\"dropped\":"), std::string::npos);
  EXPECT_NE(frames.find("kept"), std::string::npos);
  EXPECT_LT(frames.size(), 2000u);
  EXPECT_EQ(reader->take(), "");
}

TEST(Events, AnIdThatFellOutOfTheRingGivesReset) {
  api::EventHub::Limits limits;
  limits.events_a_run = 3;
  api::EventHub hub(limits);
  const auto first = hub.subscribe("", {}, "");
  hub.publish("r", "log", "0");
  const std::string seen = last_id(first->take());
  hub.publish("r", "log", "1");
  EXPECT_EQ(hub.subscribe("", {}, seen)->take().find("reset"), std::string::npos);
  for (int i = 2; i < 8; ++i) hub.publish("r", "log", std::to_string(i));
  EXPECT_NE(hub.subscribe("", {}, seen)->take().find("event: reset"), std::string::npos);
  EXPECT_NE(hub.subscribe("", {}, "garbage")->take().find("event: reset"), std::string::npos);
  EXPECT_EQ(hub.subscribe("", {}, "")->take().find("reset"), std::string::npos);
}

TEST(Events, ARingIsBoundedInBytesToo) {
  api::EventHub::Limits limits;
  limits.bytes_a_run = 1000;
  api::EventHub hub(limits);
  const auto first = hub.subscribe("", {}, "");
  hub.publish("r", "log", "0");
  const std::string seen = last_id(first->take());
  for (int i = 0; i < 3; ++i) hub.publish("r", "log", std::string(300, 'x'));
  EXPECT_EQ(hub.subscribe("", {}, seen)->take().find("reset"), std::string::npos);
  hub.publish("r", "log", std::string(300, 'x'));
  EXPECT_NE(hub.subscribe("", {}, seen)->take().find("event: reset"), std::string::npos);
}

TEST(Events, OfARunThatIsSilentAreForgottenWhenOthersReport) {
  api::EventHub::Limits limits;
  limits.age = std::chrono::milliseconds(1);
  api::EventHub hub(limits);
  const auto first = hub.subscribe("r_silent", {}, "");
  hub.publish("r_silent", "log", "0");
  const std::string seen = last_id(first->take());
  hub.publish("r_silent", "log", "1");
  EXPECT_TRUE(soon([&] {
    hub.publish("r_other", "log", "2");
    return hub.subscribe("r_silent", {}, seen)->take().find("event: reset") != std::string::npos;
  }));
  EXPECT_EQ(hub.subscribe("r_third", {}, seen)->take().find("reset"), std::string::npos);
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
  api::EventHub::Limits limits;
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
