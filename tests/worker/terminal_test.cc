#include "worker/terminal.h"

#include <gtest/gtest.h>

#include <fstream>

namespace babelring {
namespace {

namespace fs = std::filesystem;

/// A made-up /proc.
class LauncherTerminal : public testing::Test {
 protected:
  LauncherTerminal() { fs::remove_all(proc_); }
  ~LauncherTerminal() override { fs::remove_all(proc_); }
  void add(pid_t pid, const std::string& name, pid_t parent, const std::string& error_output) {
    const fs::path folder = proc_ / std::to_string(pid);
    fs::create_directories(folder / "fd");
    std::ofstream(folder / "status") << "Name:\t" << name << "\nUmask:\t0022\nState:\tS (sleeping)\nTgid:\t" << pid
                                     << "\nPPid:\t" << parent << "\nTracerPid:\t0\n";
    fs::create_symlink(error_output, folder / "fd" / "2");
  }
  fs::path proc_ = fs::temp_directory_path() / ("launcher-terminal-test-" + std::to_string(getpid()));
};

TEST_F(LauncherTerminal, IsFoundThroughIntermediateProcesses) {
  add(10, "bash", 1, "/dev/pts/3");
  add(11, "mpirun", 10, "/dev/pts/3");
  add(12, "numactl", 11, "pipe:[1]");
  EXPECT_TRUE(launcher_has_terminal(11, proc_));
  EXPECT_TRUE(launcher_has_terminal(12, proc_));
}

TEST_F(LauncherTerminal, IsAbsentIfTheLauncherIsRedirected) {
  add(10, "bash", 1, "/dev/pts/3");
  add(11, "mpirun", 10, "/tmp/log");
  EXPECT_FALSE(launcher_has_terminal(11, proc_));
}

TEST_F(LauncherTerminal, IsAbsentWithoutALauncher) {
  add(10, "orted", 1, "/dev/pts/3");  // of another host: its output is not what mpirun shows
  add(11, "bash", 10, "/dev/pts/3");
  EXPECT_FALSE(launcher_has_terminal(11, proc_));
  EXPECT_FALSE(launcher_has_terminal(99, proc_));
}

TEST(DrawsProgress, FollowsTheChoice) {
  EXPECT_EQ(choice_of(progress_bar_choices(), "never"), ProgressBar::never);
  EXPECT_THROW(choice_of(progress_bar_choices(), "sometimes"), Failure);
  EXPECT_TRUE(draws_progress(ProgressBar::always));
  EXPECT_FALSE(draws_progress(ProgressBar::never));
}

}  // namespace
}  // namespace babelring
