#include "nmt/core/shared_file.h"

#include <gmock/gmock.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdint>
#include <functional>
#include <memory>
#include <new>
#include <vector>

#include "base/failure.h"

namespace babelring {
namespace {

using testing::Each;

TEST(SharedFile, IsZeroedAndSharedByInvitation) {
  const auto file = SharedFile::create(10'000);
  ASSERT_NE(file, nullptr);
  EXPECT_TRUE(file->reserve(4096, 4096));
  EXPECT_THAT(std::vector<char>(file->data(), file->data() + 10'000), Each(0));
  const auto other = SharedFile::open(file->invitation());
  ASSERT_NE(other, nullptr);
  file->data()[9'999] = 7;
  EXPECT_EQ(other->data()[9'999], 7);
}

TEST(SharedFile, RefusesWrongInvitations) {
  const auto file = SharedFile::create(100);
  const std::string invitation = file->invitation();
  EXPECT_EQ(SharedFile::open(""), nullptr);
  EXPECT_EQ(SharedFile::open("1 2 3"), nullptr);
  EXPECT_EQ(SharedFile::open(invitation + "1"), nullptr);  // another token, as on another machine
  EXPECT_EQ(SharedFile::open("0 0 100 1"), nullptr);       // no such process
  EXPECT_NE(SharedFile::open(invitation), nullptr);
}

TEST(SharedFile, IsAlignedToHugePages) {
  const auto file = SharedFile::create(3 * huge_page);
  const auto other = SharedFile::open(file->invitation());
  ASSERT_NE(other, nullptr);
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(file->data()) % huge_page, 0U);
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(other->data()) % huge_page, 0U);
  other->data()[huge_page + 5] = 3;
  EXPECT_TRUE(file->reserve(100, 3 * huge_page - 100));
  EXPECT_EQ(file->data()[huge_page + 5], 3);
  file->data()[2 * huge_page] = 4;
  EXPECT_EQ(other->data()[2 * huge_page], 4);
}

TEST(SharedFile, GivesWholePagesBack) {
  constexpr std::size_t page = 4096;
  for (const auto& file : {SharedFile::create(4 * page), SharedFile::create_private(4 * page)}) {
    ASSERT_NE(file, nullptr);
    std::memset(file->data(), 7, 4 * page);
    file->release(1, 3 * page);
    file->release(0, 10);
    EXPECT_EQ(std::count(file->data(), file->data() + page, 7), page) << "is not wholly in the range";
    EXPECT_EQ(std::count(file->data() + page, file->data() + 3 * page, 0), 2 * page);
    EXPECT_EQ(std::count(file->data() + 3 * page, file->data() + 4 * page, 7), page);
  }
}

TEST(SharedFile, IsPrivateIfAsked) {
  const auto file = SharedFile::create_private(huge_page + 10);
  EXPECT_EQ(file->invitation(), "");
  EXPECT_TRUE(file->reserve(0, huge_page + 10));
  EXPECT_EQ(file->data()[huge_page + 9], 0);
  file->data()[huge_page + 9] = 7;
  EXPECT_EQ(file->data()[huge_page + 9], 7);
}

using testing::HasSubstr;
using testing::ThrowsMessage;
constexpr std::chrono::minutes long_time(30);

class ProcessMutexTest : public testing::Test {
 protected:
  struct Shared {
    ProcessMutex mutex;
    int counter = 0;
  };

  /// Forks a process that runs `work` and ends with exit code 0. Returns its id.
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
