#include "nmt/comm/shared/comm_memory.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <thread>
#include <vector>

#include "tests/nmt/comm/thread_communicator.h"

namespace babelring {
namespace {

using testing::Each;
using testing::ElementsAre;

/// The value in the memory that each rank shares after every rank has added 1; 0: it shares none.
std::vector<int> ranks_that_share(int ranks, int hosts, const std::function<std::string(int)>& key) {
  ThreadGroup group(ranks, false, hosts);
  std::vector<int> found(static_cast<std::size_t>(ranks));
  std::vector<std::thread> threads;
  for (int rank = 0; rank < ranks; ++rank) {
    threads.emplace_back([&, rank] {
      const auto communicator = group.rank(rank);
      const auto memory = share_on_host(*communicator, 10'000, key(rank), [](char* data) { data[9'999] = 100; });
      if (memory) std::atomic_ref(memory->data()[9'999]) += 1;
      communicator->barrier();
      if (memory) found[static_cast<std::size_t>(rank)] = memory->data()[9'999] - 100;
      communicator->barrier();
    });
  }
  for (std::thread& thread : threads) thread.join();
  return found;
}

TEST(ShareOnHost, GivesTheRanksOfAHostTheSameMemory) {
  const auto equal = [](int) { return "plan"; };
  EXPECT_THAT(ranks_that_share(4, 1, equal), Each(4));
  EXPECT_THAT(ranks_that_share(6, 2, equal), Each(3));
}

TEST(ShareOnHost, GivesNothingToARankWithoutOthers) {
  EXPECT_THAT(ranks_that_share(1, 1, [](int) { return "plan"; }), ElementsAre(0));
  EXPECT_THAT(ranks_that_share(2, 2, [](int) { return "plan"; }), ElementsAre(0, 0));
}

TEST(ShareOnHost, SeparatesKeys) {
  EXPECT_THAT(ranks_that_share(4, 1, [](int rank) { return rank == 2 ? "other" : "plan"; }), ElementsAre(3, 3, 0, 3));
}

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
