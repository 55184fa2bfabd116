#include "base/repeating_thread.h"

#include <gtest/gtest.h>

#include <atomic>
#include <stdexcept>

#include "tests/soon.h"

namespace babelring {
namespace {

TEST(RepeatingThread, CallsAgainAfterEachIntervalAlsoAfterAnException) {
  std::atomic<int> calls = 0;
  const RepeatingThread thread("test", std::chrono::milliseconds(1), [&] {
    if (++calls == 1) throw std::runtime_error("the first call fails");
  });
  EXPECT_TRUE(soon([&] { return calls >= 3; }));
}

TEST(RepeatingThread, CallsAtOnceWhenWokenAndNotBefore) {
  std::atomic<int> calls = 0;
  {
    RepeatingThread thread("test", std::chrono::hours(1), [&] { ++calls; });
    EXPECT_EQ(calls, 0);
    thread.wake();
    EXPECT_TRUE(soon([&] { return calls == 1; }));
  }
  EXPECT_EQ(calls, 1);
}

}  // namespace
}  // namespace babelring
