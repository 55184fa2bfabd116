#include "nmt/comm/mpi/watchdog.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <future>

namespace babelring {
namespace {

using std::chrono::milliseconds;

TEST(Watchdog, DoesNothingIfDestroyedInTime) {
  std::atomic<int> expired = 0;
  {
    const Watchdog watchdog(std::chrono::hours(1), [&] { ++expired; });
  }
  EXPECT_EQ(expired, 0);
}

TEST(Watchdog, CallsOnceAfterTheDeadline) {
  std::promise<void> called;
  std::atomic<int> expired = 0;
  {
    const Watchdog watchdog(milliseconds(1), [&] {
      ++expired;
      called.set_value();
    });
    called.get_future().wait();
  }
  EXPECT_EQ(expired, 1);
}

TEST(WatchdogDeathTest, EndsAHangingProcess) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(
      {
        const Watchdog watchdog(milliseconds(10), [] {
          std::fputs("it has not returned\n", stderr);
          _exit(7);
        });
        while (true) pause();
      },
      testing::ExitedWithCode(7), "it has not returned");
}

}  // namespace
}  // namespace babelring
