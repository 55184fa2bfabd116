#include "base/work_folder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fstream>

#include "base/failure.h"
#include "base/files.h"

namespace babelring {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;
using testing::ThrowsMessage;

class WorkFolderTest : public testing::Test {
 protected:
  WorkFolderTest() { fs::create_directories(base_); }
  ~WorkFolderTest() override { fs::remove_all(base_); }

  static void write(const fs::path& file, std::string_view text) {
    fs::create_directories(file.parent_path());
    std::ofstream(file) << text;
  }
  std::ptrdiff_t entries() const { return std::distance(fs::directory_iterator(base_), {}); }

  /// The folder of a process that ended without removing it.
  fs::path left_by_a_killed_process(const std::string& resume) {
    const pid_t child = fork();
    if (child == 0) {
      const WorkFolder folder(base_, "out", resume);
      write(folder / "half", "half");
      write(base_ / "path", folder.path().string());
      _exit(0);
    }
    waitpid(child, nullptr, 0);
    const fs::path path = read_file(base_ / "path");
    fs::remove(base_ / "path");
    EXPECT_TRUE(fs::exists(path / "half"));
    return path;
  }

  const fs::path base_ = testing::TempDir() + "work_folder_test." + std::to_string(::getpid());
};

TEST_F(WorkFolderTest, IsRemovedWithItsLockAndTheParentsThatItMade) {
  {
    const WorkFolder folder(base_ / "a" / "b" / "", "out");
    write(folder / "deep" / "file", "x");
    EXPECT_EQ(folder.path().parent_path(), base_ / "a" / "b");
    EXPECT_TRUE(fs::exists(base_ / "a" / "b" / ".out.lock"));
  }
  EXPECT_FALSE(fs::exists(base_ / "a"));
  EXPECT_TRUE(fs::exists(base_));
}

TEST_F(WorkFolderTest, OneProcessAtATimeWorksOnAName) {
  const WorkFolder folder(base_, "out"), other(base_, "other");
  EXPECT_THAT([&] { WorkFolder(base_, "out"); },
              ThrowsMessage<UsageFailure>(testing::AllOf(HasSubstr("process " + std::to_string(::getpid()) + " on "),
                                                         HasSubstr(" writes there at the moment"))));
  EXPECT_TRUE(fs::exists(folder.path()));
}

TEST_F(WorkFolderTest, LeftoversAreRemovedAndNothingElse) {
  const fs::path leftover = left_by_a_killed_process("");
  write(base_ / "out.part-1" / "notes", "mine");
  write(base_ / "out.part" / "notes", "mine");
  fs::create_directory_symlink(base_ / "out.part", base_ / "out.part-2");
  const WorkFolder folder(base_, "out");
  EXPECT_FALSE(fs::exists(leftover));
  EXPECT_EQ(read_file(base_ / "out.part-1" / "notes"), "mine");
  EXPECT_EQ(read_file(base_ / "out.part-2" / "notes"), "mine");
}

TEST_F(WorkFolderTest, ALeftoverOfTheSameWorkIsTakenOver) {
  const fs::path leftover = left_by_a_killed_process("checkpoint c_1");
  {
    WorkFolder folder(base_, "out", "checkpoint c_1");
    EXPECT_EQ(folder.path(), leftover);
    EXPECT_EQ(read_file(folder / "half"), "half");
    folder.keep();
  }
  EXPECT_TRUE(fs::exists(leftover));
  const WorkFolder folder(base_, "out", "checkpoint c_2");
  EXPECT_FALSE(fs::exists(leftover));
}

TEST_F(WorkFolderTest, PublishesUnderANewNameOnly) {
  WorkFolder folder(base_, "out");
  write(folder / "file", "new");
  fs::create_directories(base_ / "out");
  EXPECT_THAT([&] { folder.publish(base_ / "out"); }, ThrowsMessage<Failure>(HasSubstr("out exists already")));
  fs::remove(base_ / "out");
  folder.publish(base_ / "out");
  EXPECT_EQ(read_file(base_ / "out" / "file"), "new");
  EXPECT_EQ(std::distance(fs::directory_iterator(base_ / "out"), {}), 1) << "the marker is gone";
}

TEST_F(WorkFolderTest, AFileOfSomebodyElseIsNoLock) {
  write(base_ / ".out.lock", "my notes\n");
  EXPECT_THAT([&] { WorkFolder(base_, "out"); },
              ThrowsMessage<Failure>(HasSubstr("is not a lock file of this program")));
  EXPECT_EQ(read_file(base_ / ".out.lock"), "my notes\n");
  EXPECT_EQ(entries(), 1);
}

}  // namespace
}  // namespace babelring
