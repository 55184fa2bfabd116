#include "base/files.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/failure.h"

namespace babelring {
namespace {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::HasSubstr;
using testing::StartsWith;
using testing::ThrowsMessage;

class AtomicFileTest : public testing::Test {
 protected:
  AtomicFileTest() {
    fs::remove_all(folder_);
    fs::create_directories(folder_);
  }
  ~AtomicFileTest() override { fs::remove_all(folder_); }
  std::size_t files() const {
    return static_cast<std::size_t>(std::distance(fs::directory_iterator(folder_), fs::directory_iterator()));
  }
  const fs::path folder_ = testing::TempDir() + "atomic_file_test." + std::to_string(::getpid());
  const fs::path file_ = folder_ / "file";
};

TEST_F(AtomicFileTest, AppearsOnlyWhenCommitted) {
  AtomicFile file(file_);
  file.write("hello ");
  file.write("world");
  EXPECT_FALSE(fs::exists(file_));
  file.commit();
  EXPECT_EQ(read_file(file_), "hello world");
  EXPECT_EQ(files(), 1U);
}

TEST_F(AtomicFileTest, LeavesNothingWithoutCommit) {
  {
    AtomicFile(file_).write("lost");
  }
  EXPECT_EQ(files(), 0U);
}

TEST_F(AtomicFileTest, ReplacesAndKeepsThePreviousUntilCommit) {
  write_file_atomically(file_, "old");
  {
    AtomicFile file(file_);
    file.write("new");
    EXPECT_EQ(read_file(file_), "old");
  }
  EXPECT_EQ(read_file(file_), "old");
  write_file_atomically(file_, std::string(200000, 'n'));
  EXPECT_EQ(read_file(file_), std::string(200000, 'n'));
}

TEST_F(AtomicFileTest, TwoFilesAppearTogether) {
  AtomicFile first(file_), second(folder_ / "other");
  first.write("one");
  second.write("two");
  AtomicFile::commit_both(first, second);
  EXPECT_EQ(read_file(file_) + read_file(folder_ / "other"), "onetwo");
  EXPECT_EQ(files(), 2U);
}

/// A folder that came meanwhile stands where one of them should.
TEST_F(AtomicFileTest, TwoFilesAppearBothOrNeither) {
  for (const bool blocks_second : {true, false}) {
    const fs::path occupied = folder_ / (blocks_second ? "second" : "first");
    {
      AtomicFile first(folder_ / "first"), second(folder_ / "second");
      first.write("one");
      second.write("two");
      fs::create_directories(occupied / "x");
      EXPECT_THAT([&] { AtomicFile::commit_both(first, second); },
                  ThrowsMessage<Failure>(StartsWith("write " + occupied.string() + ": rename: ")));
    }
    EXPECT_TRUE(fs::exists(occupied / "x")) << "not ours";
    fs::remove_all(occupied);
    EXPECT_EQ(files(), 0U);
  }
}

TEST_F(AtomicFileTest, UseAfterCommitIsAFailure) {
  AtomicFile file(file_);
  file.commit();
  EXPECT_THAT([&] { file.write("x"); }, ThrowsMessage<Failure>("write " + file_.string() + ": written after commit"));
  EXPECT_THAT([&] { file.commit(); }, ThrowsMessage<Failure>("write " + file_.string() + ": committed twice"));
}

TEST_F(AtomicFileTest, NamesTheFileThatCannotBeCreated) {
  const fs::path absent = folder_ / "absent" / "file";
  EXPECT_THAT([&] { AtomicFile file(absent); },
              ThrowsMessage<Failure>(AllOf(StartsWith("write " + absent.string() + ": cannot create "),
                                           HasSubstr("No such file or directory"))));
}

TEST_F(AtomicFileTest, NamesTheTargetThatCannotBeReplaced) {
  fs::create_directories(file_ / "occupied");
  EXPECT_THAT([&] { write_file_atomically(file_, "x"); },
              ThrowsMessage<Failure>("write " + file_.string() + ": rename: Is a directory"));
  EXPECT_EQ(files(), 1U);
}

TEST_F(AtomicFileTest, FullDeviceIsAFailure) {
  if (!fs::exists("/dev/full")) GTEST_SKIP() << "no /dev/full here";
  AtomicFile file(file_);
  // The temporary file's descriptor is private; /dev/full stands in for a full disk behind the same write().
  fs::remove(file_.string() + ".tmp." + std::to_string(::getpid()));
  fs::create_symlink("/dev/full", file_.string() + ".tmp." + std::to_string(::getpid()));
  EXPECT_THAT(
      [&] {
        AtomicFile full(file_);
        full.write("x");
      },
      ThrowsMessage<Failure>("write " + file_.string() + ": 1 bytes left: No space left on device"));
}

TEST_F(AtomicFileTest, WritesIntoAPipeOrDeviceInsteadOfReplacingIt) {
  ASSERT_EQ(::mkfifo(file_.c_str(), 0600), 0);
  const FileDescriptor reader(::open(file_.c_str(), O_RDONLY | O_NONBLOCK));
  const fs::path link = folder_ / "link";
  fs::create_symlink(file_, link);
  write_file_atomically(file_, "one ");
  write_file_atomically(link, "two");
  char text[16] = {};
  EXPECT_EQ(::read(reader.get(), text, sizeof text), 7);
  EXPECT_STREQ(text, "one two");
  EXPECT_TRUE(fs::is_fifo(file_));
  EXPECT_TRUE(fs::is_symlink(link));
  EXPECT_EQ(files(), 2U);
}

TEST_F(AtomicFileTest, ReadAndSyncNameAnAbsentFile) {
  EXPECT_THAT([&] { read_file(file_); },
              ThrowsMessage<Failure>("read " + file_.string() + ": No such file or directory"));
  EXPECT_THAT([&] { read_file(folder_); }, ThrowsMessage<Failure>("read " + folder_.string() + ": Is a directory"));
  EXPECT_THAT([&] { sync_folder(file_); },
              ThrowsMessage<Failure>("sync folder " + file_.string() + ": No such file or directory"));
  EXPECT_NO_THROW(sync_folder(folder_));
}

}  // namespace

}  // namespace babelring
