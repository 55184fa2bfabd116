#include "worker/run_folder.h"
#include "base/names.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <csignal>
#include <filesystem>
#include <optional>
#include <thread>
#include <vector>

#include "base/files.h"
#include "base/records/records.h"
#include "base/records/run_marks.h"

namespace babelring {
namespace {

using testing::HasSubstr;

class RunFolderTest : public ::testing::Test {
 protected:
  RunFolderTest() {
    std::string name = std::filesystem::temp_directory_path() / "babelring-folder-XXXXXX";
    folder_ = mkdtemp(name.data());
  }
  ~RunFolderTest() override { std::filesystem::remove_all(folder_); }

  /// Started by hand.
  std::unique_ptr<RunFolder> start(bool take_over = false, std::int64_t earlier_attempts = 0) {
    auto folder = std::make_unique<RunFolder>(folder_, RunFolder::Options{.lock = {.take_over = take_over}});
    folder->open(earlier_attempts, "hostA");
    return folder;
  }
  /// Started by a server.
  std::unique_ptr<RunFolder> start_by_server(const std::string& run, std::int64_t attempt) {
    auto folder = std::make_unique<RunFolder>(
        folder_, RunFolder::Options{.run = run, .attempt = attempt, .lock = {.take_over = true}});
    folder->open(0, "hostA");
    return folder;
  }

  std::filesystem::path folder_;
  const std::string run_ = make_id('r');
};

TEST_F(RunFolderTest, NumbersAttempts) {
  const auto first = start();
  const auto second = start(true);
  EXPECT_EQ(first->attempt(), 1);
  EXPECT_EQ(second->attempt(), 2);
  EXPECT_EQ(second->run(), first->run());
  EXPECT_NO_THROW(second->require_current());
  EXPECT_THROW(first->require_current(), Fenced) << "somebody started the folder again";
}

TEST_F(RunFolderTest, ContinuesTheNumbersOfOtherHosts) {
  EXPECT_EQ(start(false, 6)->attempt(), 7);
  EXPECT_EQ(start(false, 3)->attempt(), 8);
}

TEST_F(RunFolderTest, UsesTheNumbersOfAServer) {
  const auto third = start_by_server(run_, 3);
  EXPECT_EQ(third->attempt(), 3);
  EXPECT_THROW(start_by_server(run_, 3), Fenced) << "the same attempt twice";
  EXPECT_THROW(start_by_server(run_, 2), Fenced);
  EXPECT_THROW(start_by_server(make_id('r'), 4), Failure) << "another run's folder";
  EXPECT_THROW(start_by_server("r_x", 4), UsageFailure);
  EXPECT_THROW(check_identity(run_, 0), UsageFailure);
  EXPECT_THROW(check_identity("", 1), UsageFailure);
  EXPECT_NO_THROW(check_identity(run_, 1));
  EXPECT_EQ(start(true)->attempt(), 4) << "started by hand";
}

TEST_F(RunFolderTest, AFencedAttemptIsOver) {
  auto first = start_by_server(run_, 1);
  first->require_current();
  write_fence(folder_, 1);
  EXPECT_THROW(first->require_current(), Fenced);
  first.reset();
  write_fence(folder_, 2);
  EXPECT_THROW(start_by_server(run_, 2), Fenced) << "given up before it began";
  const auto by_hand = start();
  EXPECT_EQ(by_hand->attempt(), 3);
  EXPECT_NO_THROW(by_hand->require_current());
  EXPECT_NO_THROW(start_by_server(run_, 4)->require_current());
}

TEST_F(RunFolderTest, ASecondStartIsRefusedNamingTheHolder) {
  auto first = start();
  try {
    start();
    FAIL() << "it was allowed";
  } catch (const UsageFailure& failure) {
    const LockHolder holder = read_lock_holder(folder_);
    EXPECT_EQ(holder.pid, getpid());
    std::array<char, 256> host{};
    gethostname(host.data(), host.size() - 1);
    EXPECT_EQ(holder.host, host.data());
    EXPECT_THAT(failure.what(), HasSubstr(fmt::format("run folder {}: process {} on {} trains there", folder_.string(),
                                                      holder.pid, holder.host)));
  }
  EXPECT_NO_THROW(first->require_current()) << "nothing has changed for the first";
  first.reset();
  EXPECT_EQ(start()->attempt(), 2);
}

TEST_F(RunFolderTest, TakingOverMovesTheLock) {
  const auto first = start();
  auto second = start(true);
  EXPECT_THROW(start(), UsageFailure);
  EXPECT_THROW(first->require_current(), Fenced);
  second.reset();
  EXPECT_EQ(start()->attempt(), 3) << "the first no longer has the lock, though it lives";
}

TEST_F(RunFolderTest, WaitsForTheHolderToEnd) {
  std::optional<std::unique_ptr<RunFolder>> first = start();
  std::thread ends([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
    first.reset();
  });
  RunFolder second(folder_, {.lock = {.patience = std::chrono::hours(1)}});
  ends.join();
  second.open(0, "hostA");
  EXPECT_EQ(second.attempt(), 2);
}

TEST_F(RunFolderTest, OneOfManyConcurrentStartsWins) {
  std::atomic<int> refused = 0;
  std::vector<std::unique_ptr<RunFolder>> winners(8);
  std::vector<std::thread> threads;
  for (auto& winner : winners) {
    threads.emplace_back([&] {
      try {
        winner = start();
      } catch (const UsageFailure&) {
        ++refused;
      }
    });
  }
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(refused, 7);
  EXPECT_EQ(read_run_file(folder_)->attempt, 1);
}

TEST_F(RunFolderTest, AKilledHolderLeavesNoLock) {
  std::array<int, 2> pipe{};
  ASSERT_EQ(::pipe(pipe.data()), 0);
  const pid_t child = fork();
  if (child == 0) {
    const auto folder = start();
    static_cast<void>(::write(pipe[1], "x", 1) == 1);
    while (true) pause();
  }
  char byte = 0;
  ASSERT_EQ(::read(pipe[0], &byte, 1), 1);
  EXPECT_THROW(start(), UsageFailure);
  kill(child, SIGKILL);
  waitpid(child, nullptr, 0);
  EXPECT_EQ(start()->attempt(), 2);
}

TEST_F(RunFolderTest, RunFileIsWrittenOnEveryHost) {
  const std::filesystem::path other = folder_ / "of-another-host";
  std::filesystem::create_directories(other);
  write_run_file(other, {run_, 2, "hostA"});
  write_run_file(other, {run_, 2, "hostA"});
  const auto kept = read_run_file(other);
  ASSERT_TRUE(kept);
  EXPECT_EQ(kept->run, run_);
  EXPECT_EQ(kept->attempt, 2);
  EXPECT_EQ(kept->host, "hostA");
}

TEST_F(RunFolderTest, NotesTheEndOfItsOwnAttemptOnly) {
  const auto first = start();
  EXPECT_EQ(read_run_file(folder_)->end, "");
  first->note_end("stopped", "at update 7");
  EXPECT_EQ(read_run_file(folder_)->end, "stopped");
  EXPECT_EQ(read_run_file(folder_)->detail, "at update 7");
  EXPECT_EQ(read_run_file(folder_)->host, "hostA");
  const auto second = start(true);
  EXPECT_EQ(read_run_file(folder_)->end, "") << "the next attempt has not ended";
  first->note_end("finished", "late");
  EXPECT_EQ(read_run_file(folder_)->end, "");
  second->note_end("finished", "done");
  EXPECT_EQ(read_run_file(folder_)->attempt, 2);
  EXPECT_EQ(read_run_file(folder_)->end, "finished");
}

TEST_F(RunFolderTest, RunFileHoldsTheLibraries) {
  const LibraryVersions libraries = {.onednn = "2.6.3", .open_mpi = "4.1.4", .glibc = "2.36"};
  RunFolder first(folder_, {});
  first.open(0, "hostA", libraries);
  EXPECT_EQ(read_run_file(folder_)->libraries, libraries);
  const std::filesystem::path older = folder_ / "of-an-older-worker";
  std::filesystem::create_directory(older);
  write_file_atomically(older / "run.json", fmt::format(R"({{"run":"{}","attempt":2,"host":"hostA"}})", first.run()));
  EXPECT_EQ(read_run_file(older)->libraries, LibraryVersions());
}

}  // namespace
}  // namespace babelring
