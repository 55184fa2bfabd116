#include "worker/signal_thread.h"

#include <gtest/gtest.h>

#include <csignal>

#include "tests/nmt/comm/thread_communicator.h"
#include "tests/soon.h"
#include "tests/worker/log_capture.h"

namespace babelring {
namespace {

/// Counts the calls of fail_fast().
class FailFastCount final : public ThreadCommunicator {
 public:
  explicit FailFastCount(ThreadGroup& group) : ThreadCommunicator(group, 0) {}
  void fail_fast(std::chrono::milliseconds) override { ++calls; }
  std::atomic<int> calls{0};
};

/// Restores the signals that this thread blocked before.
class SignalThreadTest : public testing::Test {
 protected:
  SignalThreadTest() { pthread_sigmask(SIG_BLOCK, nullptr, &before_); }
  ~SignalThreadTest() override { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }

  StopRequest stop_;
  sigset_t before_{};
};

TEST_F(SignalThreadTest, SignalsRequestTheEnd) {
  for (const int signal : {SIGUSR1, SIGINT, SIGTERM}) {
    StopRequest stop;
    const SignalThread signals(stop);
    EXPECT_FALSE(stop.requested());
    kill(getpid(), signal);
    EXPECT_TRUE(soon([&] { return stop.requested(); })) << signal;
    EXPECT_FALSE(stop.without_checkpoint());
    EXPECT_TRUE(soon([&] { return signals.terminated() == (signal == SIGTERM); })) << signal;
  }
}

TEST_F(SignalThreadTest, Sigusr2IsIgnoredWithAWarning) {
  const LogCapture log;
  const SignalThread signals(stop_);
  kill(getpid(), SIGUSR2);
  EXPECT_TRUE(soon([&] { return log.count("SIGUSR2 is ignored") == 1; }));
  EXPECT_FALSE(stop_.requested());
}

TEST_F(SignalThreadTest, SigtermReachesTheRegisteredCommunicatorOnly) {
  ThreadGroup group(1);
  FailFastCount first(group), second(group);
  SignalThread signals(stop_);
  {
    const SignalledRanks registered(signals, first);
  }
  const SignalledRanks registered(signals, second);
  kill(getpid(), SIGTERM);
  EXPECT_TRUE(soon([&] { return second.calls == 1; }));
  EXPECT_EQ(first.calls, 0);
}

TEST_F(SignalThreadTest, ASecondInterruptEndsTheProcess) {
  EXPECT_EXIT(
      {
        const SignalThread signals(stop_);
        kill(getpid(), SIGINT);
        static_cast<void>(soon([&] { return stop_.requested(); }));
        kill(getpid(), SIGINT);
        while (true) std::this_thread::sleep_for(std::chrono::seconds(1));
      },
      testing::KilledBySignal(SIGINT), "");
}

}  // namespace
}  // namespace babelring
