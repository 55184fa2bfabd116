#include "server/events/event_rings.h"

#include <gtest/gtest.h>

#include "tests/server/events/events_fixture.h"

namespace babelring {
namespace {

using testing::last_id;
using testing::subscribe;
using testing::taken;

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

TEST(Events, AreForgottenForASilentRunWhenOthersReport) {
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
  for (std::uint64_t i = 1; i <= 2 * count; ++i) missed.record("r" + std::to_string(i), "log", i);
  EXPECT_EQ(missed.floor(), count);
  EXPECT_EQ(missed.newest("r1", {}), 0u);
  EXPECT_EQ(missed.newest("r" + std::to_string(2 * count), {"log"}), 2 * count);
  EXPECT_EQ(missed.newest("r" + std::to_string(2 * count), {"metrics"}), 0u);
  EXPECT_EQ(missed.newest("", {}), 2 * count);
}

using testing::data_of;
using testing::frames_of;
using testing::last_id;
using testing::subscribe;
using testing::taken;

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

TEST(Events, AreNotMadeWithoutListeners) {
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
  // A client that resumes learns which frames of its topics were not made.
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

TEST(Events, AreBoundedInBytesWhileTheyGather) {
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

}  // namespace

}  // namespace babelring
