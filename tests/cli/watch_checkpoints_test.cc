#include "cli/watch_checkpoints.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include "tests/soon.h"

namespace babelring {
namespace {

namespace fs = std::filesystem;

class DownloadFolderTest : public testing::Test {
 protected:
  DownloadFolderTest() { fs::create_directories(parent_); }
  ~DownloadFolderTest() override { fs::remove_all(parent_); }

  /// A process that has a folder with a file and waits to be killed.
  pid_t start_holder() {
    const pid_t child = fork();
    if (child != 0) return child;
    const DownloadFolder folder(parent_, "watch");
    std::ofstream(folder.path() / "model.part") << "half";
    std::ofstream(parent_ / "made") << folder.path().string();
    for (;;) pause();
  }
  std::size_t folders() const {
    std::size_t count = 0;
    for (const auto& entry : fs::directory_iterator(parent_)) count += entry.is_directory() ? 1 : 0;
    return count;
  }
  /// Waits until the holder has its folder, ends it by `signal`, and returns the signal that ended it.
  int end(pid_t holder, int signal) {
    EXPECT_TRUE(soon([&] { return fs::exists(parent_ / "made"); }));
    fs::remove(parent_ / "made");
    kill(holder, signal);
    int status = 0;
    waitpid(holder, &status, 0);
    return WIFSIGNALED(status) ? WTERMSIG(status) : 0;
  }

  fs::path parent_ = fs::temp_directory_path() / ("download-folder-test-" + std::to_string(getpid()));
};

TEST_F(DownloadFolderTest, IsRemovedWithTheObject) {
  {
    const DownloadFolder folder(parent_, "watch");
    fs::create_directories(folder.path() / "update-1.part");
    EXPECT_TRUE(folder.path().filename().string().starts_with("watch-"));
    EXPECT_EQ(folders(), 1U);
  }
  EXPECT_EQ(folders(), 0U);
}

TEST_F(DownloadFolderTest, IsRemovedWhenASignalEndsTheProcess) {
  for (const int signal : {SIGTERM, SIGINT}) {
    EXPECT_EQ(end(start_holder(), signal), signal) << "the process ends as without a handler";
    EXPECT_EQ(folders(), 0U);
  }
}

TEST_F(DownloadFolderTest, IsRemovedAfterItsProcessWasKilled) {
  EXPECT_EQ(end(start_holder(), SIGKILL), SIGKILL);
  EXPECT_EQ(folders(), 1U);
  fs::create_directories(parent_ / "watches");     // has another prefix
  fs::create_directories(parent_ / "watch-mine");  // has no marker
  const DownloadFolder folder(parent_, "watch");
  EXPECT_EQ(folders(), 3U);
  EXPECT_TRUE(fs::exists(folder.path()));
}

TEST_F(DownloadFolderTest, StaysWhileItsProcessLives) {
  const pid_t holder = start_holder();
  EXPECT_TRUE(soon([&] { return fs::exists(parent_ / "made"); }));
  {
    const DownloadFolder folder(parent_, "watch");
    EXPECT_EQ(folders(), 2U);
  }
  EXPECT_EQ(folders(), 1U);
  EXPECT_EQ(end(holder, SIGTERM), SIGTERM);
}

TEST_F(DownloadFolderTest, ProcessesThatMakeFoldersAtOnceKeepTheirs) {
  std::vector<pid_t> makers;
  for (int maker = 0; maker < 4; ++maker) {
    makers.push_back(fork());
    if (makers.back() != 0) continue;
    bool kept = true;
    for (int i = 0; i < 200; ++i) {
      const DownloadFolder folder(parent_, "watch");
      std::ofstream(folder.path() / "model") << "whole";
      std::this_thread::yield();
      kept = kept && fs::file_size(folder.path() / "model") == 5;
    }
    _exit(kept ? 0 : 1);
  }
  for (const pid_t maker : makers) {
    int status = 0;
    waitpid(maker, &status, 0);
    EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0);
  }
  EXPECT_EQ(folders(), 0U);
}

}  // namespace

}  // namespace babelring
