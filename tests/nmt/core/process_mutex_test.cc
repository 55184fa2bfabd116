#include "nmt/core/process_mutex.h"

#include <gmock/gmock.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <functional>
#include <memory>
#include <new>

#include "base/failure.h"
#include "nmt/core/shared_file.h"

namespace babelring {
namespace {

using testing::HasSubstr;
using testing::ThrowsMessage;
constexpr std::chrono::minutes long_time(30);

class ProcessMutexTest : public testing::Test {
 protected:
  struct Shared {
    ProcessMutex mutex;
    int counter = 0;
  };

  /// Runs `work` in a process of its own, which ends with exit code 0 after it. Returns its id.
  static pid_t in_child(const std::function<void()>& work) {
    const pid_t child = fork();
    if (child == 0) {
      work();
      _exit(0);
    }
    return child;
  }
  static void wait_for_end(pid_t child) { EXPECT_EQ(waitpid(child, nullptr, 0), child); }

  std::shared_ptr<SharedFile> file_ = SharedFile::create(sizeof(Shared));
  Shared& shared_ = *new (file_->data()) Shared;
};

TEST_F(ProcessMutexTest, LetsOneProcessInAtATime) {
  const auto count = [this] {
    for (int i = 0; i < 20'000; ++i) {
      const ProcessLock lock(shared_.mutex, long_time, "the counter");
      shared_.counter += 1;
    }
  };
  const pid_t child = in_child(count);
  count();
  wait_for_end(child);
  EXPECT_EQ(shared_.counter, 40'000);
}

TEST_F(ProcessMutexTest, IsFreeAfterItsHolderDied) {
  wait_for_end(in_child([this] {
    shared_.mutex.lock(long_time, "the counter");
    raise(SIGKILL);
  }));
  for (int i = 0; i < 2; ++i) {
    const ProcessLock lock(shared_.mutex, long_time, "the counter");
    shared_.counter += 1;
  }
  EXPECT_EQ(shared_.counter, 2);
}

TEST_F(ProcessMutexTest, NamesTheProcessThatDoesNotGiveItBack) {
  int ready[2];
  ASSERT_EQ(pipe(ready), 0);
  const pid_t child = in_child([&] {
    shared_.mutex.lock(long_time, "the counter");
    if (write(ready[1], "r", 1) == 1) pause();
  });
  char byte = 0;
  ASSERT_EQ(read(ready[0], &byte, 1), 1);
  EXPECT_THAT([&] { shared_.mutex.lock(std::chrono::milliseconds(20), "the counter"); },
              ThrowsMessage<Failure>(HasSubstr("the counter: process " + std::to_string(child) + " of this host")));
  kill(child, SIGKILL);
  wait_for_end(child);
  const ProcessLock lock(shared_.mutex, long_time, "the counter");
  close(ready[0]);
  close(ready[1]);
}

}  // namespace
}  // namespace babelring
