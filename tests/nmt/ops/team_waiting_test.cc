#include "nmt/ops/cpu/cpu_backend.h"

#include <gtest/gtest.h>

#include <cstdlib>

namespace babelring {
namespace {

using std::chrono::milliseconds;

class TeamWaitingTest : public testing::Test {
 protected:
  TeamWaitingTest() {
    ::unsetenv("OMP_WAIT_POLICY");
    ::unsetenv("GOMP_SPINCOUNT");
  }
  cpu::TeamWaiting make(int threads) {
    return cpu::TeamWaiting(threads, [this] { return waited_; }, [this] { return now_; });
  }
  /// A second in which threads wait for processors, in sum, for `waited`.
  static void second(cpu::TeamWaiting& waiting, TeamWaitingTest& test, milliseconds waited) {
    for (int look = 0; look < 5; ++look) {
      test.now_ += milliseconds(200);
      test.waited_ = *test.waited_ + waited / 5;
      waiting.look();
    }
  }
  SteadyClock::time_point now_ = SteadyClock::now();
  std::optional<Nanoseconds> waited_ = Nanoseconds(0);
};

TEST_F(TeamWaitingTest, IsBriefWhileThreadsWaitForProcessors) {
  cpu::TeamWaiting waiting = make(2);
  second(waiting, *this, milliseconds(200));  // a tenth of two threads' time
  EXPECT_FALSE(waiting.brief());
  second(waiting, *this, milliseconds(400));
  EXPECT_TRUE(waiting.brief());
  second(waiting, *this, milliseconds(400));
  second(waiting, *this, milliseconds(0));
  EXPECT_TRUE(waiting.brief());
  second(waiting, *this, milliseconds(0));
  EXPECT_FALSE(waiting.brief());
}

/// Ranks that only hinder each other wait for processors as soon as they spin long again.
TEST_F(TeamWaitingTest, TriesLessOftenWhereCompetitionReturns) {
  cpu::TeamWaiting waiting = make(2);
  second(waiting, *this, milliseconds(1000));
  for (const int seconds : {2, 4, 8, 16, 32, 64, 120, 120}) {
    ASSERT_TRUE(waiting.brief());
    for (int i = 1; i < seconds; ++i) second(waiting, *this, milliseconds(0));
    ASSERT_TRUE(waiting.brief()) << seconds;
    second(waiting, *this, milliseconds(0));
    ASSERT_FALSE(waiting.brief()) << seconds;
    now_ += milliseconds(200);
    waited_ = *waited_ + milliseconds(200);
    waiting.look();
  }
  for (int i = 0; i < 125; ++i) second(waiting, *this, milliseconds(0));
  ASSERT_FALSE(waiting.brief());
  second(waiting, *this, milliseconds(1000));
  ASSERT_TRUE(waiting.brief());
  for (int i = 0; i < 2; ++i) second(waiting, *this, milliseconds(0));
  EXPECT_FALSE(waiting.brief()) << "competition that came by itself does not keep its doubled time";
}

TEST_F(TeamWaitingTest, LeavesOneThreadAndUsersChoicesAlone) {
  cpu::TeamWaiting one = make(1);
  second(one, *this, milliseconds(1000));
  EXPECT_FALSE(one.brief());
  ::setenv("OMP_WAIT_POLICY", "active", 1);
  cpu::TeamWaiting chosen = make(2);
  ::unsetenv("OMP_WAIT_POLICY");
  second(chosen, *this, milliseconds(1000));
  EXPECT_FALSE(chosen.brief());
}

TEST_F(TeamWaitingTest, DoesNothingWhereTheKernelDoesNotSay) {
  waited_ = std::nullopt;
  cpu::TeamWaiting waiting = make(2);
  waited_ = Nanoseconds(0);
  second(waiting, *this, milliseconds(1000));
  EXPECT_FALSE(waiting.brief());
}

TEST_F(TeamWaitingTest, KernelTellsHowLongThreadsWaited) {
  const auto first = cpu::processor_wait();
  if (!first) GTEST_SKIP() << "/proc/self/task has no schedstat";
  EXPECT_GE(*first, Nanoseconds(0));
}

}  // namespace
}  // namespace babelring
