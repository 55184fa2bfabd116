#include "base/spawn.h"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <thread>

namespace babelring {
namespace {

int exit_code_of(pid_t pid) {
  int status = 0;
  EXPECT_EQ(waitpid(pid, &status, 0), pid);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

TEST(Spawn, ConnectsOutputAndErrorsToOneFile) {
  const std::filesystem::path file =
      std::filesystem::temp_directory_path() / ("babelring-spawn-" + std::to_string(getpid()));
  const auto pid = spawn({.arguments = {"sh", "-c", "echo out; echo err >&2; pwd; echo $NAME"},
                          .environment = {"PATH=/usr/bin:/bin", "NAME=value"},
                          .folder = "/",
                          .output_file = file.string()});
  ASSERT_TRUE(pid.ok());
  EXPECT_EQ(exit_code_of(*pid), 0);
  std::ifstream text(file);
  EXPECT_EQ(std::string(std::istreambuf_iterator<char>(text), {}), "out\nerr\n/\nvalue\n");
  std::filesystem::remove(file);
}

TEST(Spawn, SaysWhyAProgramCannotBeStarted) {
  const auto pid = spawn({.arguments = {"/dev/null/program"}, .environment = {}});
  ASSERT_FALSE(pid.ok());
  EXPECT_EQ(pid.error(), "Not a directory");
}

TEST(Spawn, PutsTheProgramIntoItsOwnGroup) {
  for (const bool new_session : {true, false}) {
    const auto pid =
        spawn({.arguments = {"sleep", "1000"}, .environment = {"PATH=/usr/bin:/bin"}, .new_session = new_session});
    ASSERT_TRUE(pid.ok());
    EXPECT_EQ(getpgid(*pid), *pid);
    EXPECT_EQ(getsid(*pid) == *pid, new_session);
    kill(*pid, SIGKILL);
    exit_code_of(*pid);
  }
}

TEST(Spawn, InheritsOnlyNamedVariables) {
  EXPECT_EQ(inherited_environment({"BABELRING_NO_SUCH_VARIABLE"}).size(), 0U);
  EXPECT_EQ(inherited_environment({"PATH"}).front().substr(0, 5), "PATH=");
}

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
