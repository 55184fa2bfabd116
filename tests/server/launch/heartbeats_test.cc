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

}  // namespace
}  // namespace babelring::launch
