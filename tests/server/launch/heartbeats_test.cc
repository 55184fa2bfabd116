#include "server/launch/heartbeats.h"

#include <gtest/gtest.h>

namespace babelring::launch {
namespace {

using namespace std::chrono_literals;

class HeartbeatsTest : public ::testing::Test {
 protected:
  void beat(const std::string& run, std::int64_t rank, const std::string& token = "t", std::int64_t ranks = 0) {
    beats_.record(run, {.attempt = 1, .rank = rank, .host = "h"}, {.token = token, .ranks = ranks});
  }
  std::size_t ranks(const std::string& run) { return beats_.of(run, 1).size(); }
  SteadyClock::time_point now_ = SteadyClock::time_point(1000h);
  Heartbeats beats_{[this] { return now_; }};
};

TEST_F(HeartbeatsTest, DisplacesOnlyRanksOfTheRunThatInventsThem) {
  beat("victim", 0, "other");
  beat("own", 5);
  for (std::int64_t rank = 0; rank < 150'000; ++rank) beat("invented", rank);
  EXPECT_EQ(ranks("invented"), Heartbeats::max_ranks);
  EXPECT_EQ(beats_.of("invented", 1).back().beat.rank, 149'999) << "the oldest went";
  EXPECT_EQ(ranks("victim"), 1u);
  EXPECT_EQ(ranks("own"), 1u);
}

TEST_F(HeartbeatsTest, DisplacesOnlyRunsOfTheTokenThatInventsThem) {
  beat("victim", 0, "other");
  for (int run = 0; run < 40; ++run) {
    for (std::int64_t rank = 0; rank < 4096; ++rank) beat("invented " + std::to_string(run), rank);
  }
  EXPECT_EQ(ranks("victim"), 1u);
  EXPECT_EQ(beats_.runs(), 1 + Heartbeats::max_token_ranks / 4096);
  EXPECT_EQ(ranks("invented 39"), 4096u);
  EXPECT_EQ(ranks("invented 0"), 0u) << "the one that was silent the longest went";
}

TEST_F(HeartbeatsTest, ARunMayHaveAsManyRanksAsItWasStartedWith) {
  for (std::int64_t rank = 0; rank < 20'000; ++rank) beat("big", rank, "t", 20'000);
  EXPECT_EQ(ranks("big"), 20'000u);
  beat("big", 7, "t", 20'000);
  EXPECT_EQ(ranks("big"), 20'000u);
}

TEST_F(HeartbeatsTest, ARankThatReportsAgainIsNotTheOldest) {
  for (std::int64_t rank = 0; rank < 3; ++rank) beat("run", rank, "t", 3);
  beat("run", 0, "t", 3);
  beat("run", 3, "t", 3);
  const auto left = beats_.of("run", 1);
  ASSERT_EQ(left.size(), 3u);
  EXPECT_EQ(left[0].beat.rank, 0);
  EXPECT_EQ(left[1].beat.rank, 2);
}

TEST_F(HeartbeatsTest, RunsThatAreSilentForADayAreForgottenAFewAtATime) {
  for (int run = 0; run < 100; ++run) beat("run " + std::to_string(run), 0, "token " + std::to_string(run % 7));
  now_ += 12h;
  beat("run 50", 0);
  now_ += 13h;
  beat("new", 0);
  EXPECT_EQ(beats_.runs(), 97u);
  for (int i = 0; i < 100; ++i) beat("new", 0);
  EXPECT_EQ(beats_.runs(), 2u);
  EXPECT_EQ(ranks("run 50"), 1u);
  beats_.forget("run 50");
  EXPECT_EQ(beats_.nodes().at(0).ranks.size(), 1u);
  EXPECT_EQ(beats_.nodes().at(0).ranks.at(0).run, "new");
}

TEST_F(HeartbeatsTest, TheBlackBoxHasTheLastMinuteOfARankThatDied) {
  Beat dying{.attempt = 1, .rank = 1, .host = "b", .resident_bytes = 1'000'000, .memory_bytes = 8'000'000};
  for (int second = 0; second < 100; ++second) {
    dying.update = second;
    dying.resident_bytes += 10'000;
    dying.memory_available_bytes = 4'000'000 - 40'000 * second;
    dying.load = 0.25 * second;
    if (second < 98) beats_.record("run", dying);
    beats_.record("run", dying);  // repeated at once: no sample
    beat("run", 0);
    now_ += 1s;
  }
  now_ -= 1s;
  beats_.record("run", {.attempt = 1, .rank = 0, .host = "a", .temperature_celsius = 71.25});
  const auto box = beats_.black_box("run", 1);
  ASSERT_TRUE(box);
  EXPECT_EQ(box->until, now_);
  const json::object told = to_json(*box);
  const json::object rank = told.at("ranks").at(1).as_object(), host = told.at("hosts").at(1).as_object();
  EXPECT_EQ(told.at("ranks").as_array().size(), 2u);
  EXPECT_EQ(rank.at("seconds").as_array().size(), BlackBox::max_samples);
  EXPECT_EQ(rank.at("seconds").as_array().front(), -59.0);
  EXPECT_EQ(rank.at("resident_bytes").as_array().back(), 2'000'000);
  EXPECT_EQ(host.at("memory_limit_bytes"), 8'000'000);
  EXPECT_EQ(host.at("memory_left_bytes").as_array().back(), 40'000);
  EXPECT_EQ(host.at("load").as_array().back(), 24.75);
  EXPECT_TRUE(host.at("temperature_celsius").is_null()) << "no sensor";
  EXPECT_FALSE(beats_.black_box("run", 2));
  EXPECT_FALSE(beats_.black_box("other", 1));
}

TEST_F(HeartbeatsTest, TheBlackBoxOfManyRanksHasThoseThatFellSilentFirst) {
  for (std::int64_t rank = 0; rank < 300; ++rank) beat("run", rank);
  now_ += 2s;
  for (std::int64_t rank = 0; rank < 300; ++rank) {
    if (rank != 200) beat("run", rank);
  }
  const auto box = beats_.black_box("run", 1);
  ASSERT_TRUE(box);
  EXPECT_EQ(box->ranks.size(), BlackBox::max_ranks);
  EXPECT_EQ(box->left_out, Heartbeats::max_sampled_ranks - BlackBox::max_ranks);
  EXPECT_TRUE(std::any_of(box->ranks.begin(), box->ranks.end(), [](const auto& rank) { return rank.rank == 200; }));
  EXPECT_LT(to_text(to_json(*box)).size(), 40'000u);
}

TEST_F(HeartbeatsTest, ReturnsTheBoxOfASilentOrReplacedAttemptOnce) {
  beat("silent", 0);
  EXPECT_TRUE(beats_.awaits_ends());
  EXPECT_TRUE(beats_.take_ended(5s).empty()) << "it reports";
  now_ += 5s;
  EXPECT_EQ(beats_.take_ended(5s).size(), 1u);
  EXPECT_TRUE(beats_.take_ended(5s).empty());
  EXPECT_FALSE(beats_.awaits_ends());
  beat("silent", 0);
  now_ += 5s;
  EXPECT_EQ(beats_.take_ended(5s).at(0).ranks.at(0).samples.size(), 2u) << "it has reported meanwhile";
  beat("silent", 1);
  beats_.record("silent", {.attempt = 2, .rank = 0, .host = "h"});
  beat("silent", 1);  // late, of attempt 1
  const auto replaced = beats_.take_ended(5s);
  ASSERT_EQ(replaced.size(), 1u);
  EXPECT_EQ(replaced[0].attempt, 1);
  EXPECT_EQ(replaced[0].ranks.size(), 2u);
  EXPECT_EQ(replaced[0].ranks[0].newest.attempt, 1);
  EXPECT_EQ(beats_.black_box("silent", 2)->ranks.size(), 1u);
}

}  // namespace
}  // namespace babelring::launch
