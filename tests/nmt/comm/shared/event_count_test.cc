#include "nmt/comm/shared/event_count.h"

#include <gtest/gtest.h>

#include <thread>

namespace babelring {
namespace {

using std::chrono::minutes;

TEST(EventCount, DoesNotSleepIfItHasRung) {
  EventCount event_count;
  const auto seen = event_count.count();
  event_count.notify();
  event_count.wait(seen, minutes(1));
  EXPECT_NE(event_count.count(), seen);
}

TEST(EventCount, ReturnsAfterTheTimeout) {
  EventCount event_count;
  event_count.wait(event_count.count(), std::chrono::microseconds(1));
  EXPECT_EQ(event_count.count(), 0U);
}

TEST(EventCount, WakesTheSleeperOnEachRing) {
  constexpr int rounds = 2000;
  EventCount ball, back;
  std::atomic<int> thrown{0}, returned{0};
  std::thread other([&] {
    for (int i = 1; i <= rounds; ++i) {
      for (auto seen = ball.count(); thrown < i; seen = ball.count()) {
        if (thrown < i) ball.wait(seen, minutes(1));
      }
      returned = i;
      back.notify();
    }
  });
  for (int i = 1; i <= rounds; ++i) {
    thrown = i;
    ball.notify();
    for (auto seen = back.count(); returned < i; seen = back.count()) {
      if (returned < i) back.wait(seen, minutes(1));
    }
  }
  other.join();
  EXPECT_EQ(returned, rounds);
}

}  // namespace
}  // namespace babelring
