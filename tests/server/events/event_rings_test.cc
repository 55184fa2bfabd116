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

}  // namespace
}  // namespace babelring
