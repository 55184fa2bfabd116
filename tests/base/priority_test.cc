#include "base/priority.h"

#include <gtest/gtest.h>
#include <sys/resource.h>

#include <thread>

namespace babelring {
namespace {

TEST(Priority, IsLoweredForTheCallingThreadOnly) {
  const int before = getpriority(PRIO_PROCESS, 0);
  if (before > 16) GTEST_SKIP() << "the priority of this program is the lowest already";
  int of_thread = -1, of_its_child = -1;
  std::thread([&] {
    lower_priority(0, 3);
    of_thread = getpriority(PRIO_PROCESS, 0);
    std::thread([&] { of_its_child = getpriority(PRIO_PROCESS, 0); }).join();
  }).join();
  EXPECT_EQ(of_thread, before + 3);
  EXPECT_EQ(of_its_child, before + 3);
  EXPECT_EQ(getpriority(PRIO_PROCESS, 0), before);
}

TEST(Priority, StopsAtTheLowest) {
  std::thread([&] {
    lower_priority(0, 100);
    EXPECT_EQ(getpriority(PRIO_PROCESS, 0), 19);
  }).join();
}

}  // namespace
}  // namespace babelring
