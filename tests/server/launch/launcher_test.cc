#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <filesystem>

#include "base/files.h"
#include "server/launch/config_check.h"
#include "server/launch/mpirun_launcher.h"

namespace babelring::launch {
namespace {

/// No file can be opened while it is there.
class NoDescriptors {
 public:
  NoDescriptors() {
    getrlimit(RLIMIT_NOFILE, &before_);
    const rlimit none{.rlim_cur = 0, .rlim_max = before_.rlim_max};
    setrlimit(RLIMIT_NOFILE, &none);
  }
  ~NoDescriptors() { setrlimit(RLIMIT_NOFILE, &before_); }
  NoDescriptors(const NoDescriptors&) = delete;
  NoDescriptors& operator=(const NoDescriptors&) = delete;

 private:
  rlimit before_{};
};

class LauncherTest : public ::testing::Test {
 protected:
  LauncherTest() {
    std::string name = std::filesystem::temp_directory_path() / "babelring-launcher-XXXXXX";
    folder_ = mkdtemp(name.data());
  }
  ~LauncherTest() override {
    std::error_code ignored;
    std::filesystem::remove_all(folder_, ignored);
  }
  /// A program that prints `text`.
  std::string printer_of(const std::string& text) {
    const auto file = folder_ / "worker";
    write_file_atomically(file, "#!/bin/sh\ncat <<'END'\n" + text + "\nEND\n");
    std::filesystem::permissions(file, std::filesystem::perms::owner_all);
    return file.string();
  }
  LaunchOrder order() {
    LaunchOrder order;
    order.run = "r_" + std::to_string(getpid());
    order.folder = folder_;
    return order;
  }

  std::filesystem::path folder_;
};

TEST_F(LauncherTest, AProcessThatCannotBeLookedUpIsNotGone) {
  MpirunLauncher launcher;
  Profile profile;
  profile.command = {"/bin/sh", "-c", "sleep 600"};
  const auto handle = launcher.start(profile, order());
  {
    const NoDescriptors none;
    EXPECT_ANY_THROW(find_process(getpid()));
    EXPECT_ANY_THROW(launcher.poll(handle));
  }
  EXPECT_EQ(launcher.poll(handle).kind, ProcessStatus::Kind::alive);
  ProcessStatus status;
  for (; status.kind != ProcessStatus::Kind::ended; status = launcher.poll(handle)) launcher.kill(handle, true);
  EXPECT_EQ(status.kind, ProcessStatus::Kind::ended);
  EXPECT_EQ(status.exit_code, 128 + SIGKILL);
}

TEST_F(LauncherTest, AProfilesEnvironmentReplacesTheServers) {
  ASSERT_NE(getenv("PATH"), nullptr);
  Profile profile;
  profile.environment = {"PATH=/opt/mpi/bin", "PATHS=1"};
  const auto environment = launch_environment(profile, order());
  const auto count = [&](const std::string& beginning) {
    return std::count_if(environment.begin(), environment.end(),
                         [&](const auto& entry) { return entry.starts_with(beginning); });
  };
  EXPECT_EQ(count("PATH="), 1);
  EXPECT_EQ(count("PATH=/opt/mpi/bin"), 1);
  EXPECT_EQ(count("PATHS=1"), 1);
  EXPECT_EQ(count("BABELRING_RUN="), 1);
}

TEST_F(LauncherTest, EachAttemptHasASessionFolderOfItsOwn) {
  MpirunLauncher launcher;
  Profile profile;
  profile.command = {"/bin/sh", "-c", "env"};
  LaunchOrder one = order();
  const auto said = [&] {
    const auto handle = launcher.start(profile, one);
    while (launcher.poll(handle).kind != ProcessStatus::Kind::ended) usleep(1000);
    return "\n" + read_file(launch_log_path(folder_, one.attempt));
  };
  const std::filesystem::path first = folder_ / "launcher-1.session", second = folder_ / "launcher-2.session";
  one.attempt = 1;
  EXPECT_NE(said().find("\nPRTE_MCA_prte_local_tmpdir_base=" + first.string() + "\n"), std::string::npos);
  std::filesystem::create_directories(first / "prterun.vm.29.0");  // mpirun was killed
  one.attempt = 2;
  EXPECT_NE(said().find("\nPRTE_MCA_prte_local_tmpdir_base=" + second.string() + "\n"), std::string::npos);
  EXPECT_FALSE(std::filesystem::exists(first));
  one.attempt = 3;
  profile.environment = {"PRTE_MCA_prte_tmpdir_base=/scratch"};  // which Open MPI refuses beside the other
  EXPECT_EQ(said().find("prte_local_tmpdir_base"), std::string::npos);
}

TEST_F(LauncherTest, AnEvaluationIsStartedOnceAndHasNoAttempt) {
  Profile profile;
  profile.evaluation = {"/bin/sh", "-c", "env; echo \"run {run}\"; sleep 600"};
  profile.environment = {"PATHS=1"};
  LaunchOrder one = order();
  one.server = "http://here:8080";
  one.environment = {"BABELRING_TOKEN=of the attempt"};
  MpirunLauncher launcher;
  const store::LauncherHandle handle = launcher.start_evaluation(profile, one);
  const auto running = [&] { return leaders_with_environment({evaluation_mark(one.run)}); };
  while (running().empty()) usleep(10'000);
  const pid_t pid = running()[0].pid;
  const store::LauncherHandle found = MpirunLauncher().start_evaluation(profile, one);  // of a server started again
  EXPECT_EQ(found.pid, handle.pid);
  EXPECT_EQ(found.start_ticks, handle.start_ticks);
  EXPECT_EQ(launcher.poll(handle).kind, ProcessStatus::Kind::alive);
  EXPECT_EQ(running().size(), 1U);
  EXPECT_EQ(getpriority(PRIO_PROCESS, static_cast<id_t>(pid)), std::min(getpriority(PRIO_PROCESS, 0) + 10, 19));
  EXPECT_FALSE(launcher.find(one.run, one.attempt));
  const std::filesystem::path log = evaluation_log_path(folder_);
  while (read_file(log).find("run " + one.run) == std::string::npos) usleep(10'000);
  const std::string said = "\n" + read_file(log);
  for (const std::string entry : {"BABELRING_SERVER=http://here:8080", "PATHS=1"}) {
    EXPECT_NE(said.find("\n" + entry + "\n"), std::string::npos) << said;
  }
  EXPECT_EQ(said.find("BABELRING_TOKEN"), std::string::npos);
  ::kill(-pid, SIGKILL);
  // The environment of a dying process is gone before the process has ended.
  while (launcher.poll(handle).kind == ProcessStatus::Kind::alive) usleep(10'000);
  EXPECT_EQ(launcher.poll(handle).kind, ProcessStatus::Kind::ended);
  EXPECT_EQ(launcher.poll(handle).exit_code, 128 + SIGKILL);
  EXPECT_FALSE(find_process(pid)) << "it is reaped";
}

TEST(ProfileEvaluation, NamesTheRunAndHasOptionsForSlurmAlone) {
  const auto refusal = [](const std::string& members) -> std::string {
    try {
      read_profiles("p: {" + members + "}\n", "profiles.yaml");
      return "accepted";
    } catch (const UsageFailure& failure) {
      return failure.what();
    }
  };
  const std::string evaluation = "evaluation: [nmt, evaluate, --watch, '{run}', --report]";
  EXPECT_EQ(refusal(evaluation), "accepted");
  EXPECT_EQ(refusal(evaluation + ", launcher: slurm, evaluation_submit: [--partition=cpu]"), "accepted");
  EXPECT_EQ(refusal("evaluation: [nmt, evaluate]"),
            "p.evaluation: expected {run} in the command, such as [nmt, evaluate, --watch, \"{run}\", --report]");
  EXPECT_EQ(refusal(evaluation + ", evaluation_submit: [--partition=cpu]"),
            "p.evaluation_submit: is for launcher slurm, found mpirun");
}

TEST_F(LauncherTest, AStartingCheckpointMustLieBelowARootOrTheRuns) {
  Profile profile;
  profile.data_is_here = false;
  profile.folder = "/server/runs";
  const auto fault = [&](const std::string& start_from, std::vector<std::string> roots) {
    profile.data_roots = std::move(roots);
    profile.worker =
        printer_of(R"({"config": "", "name": "n", "data_folder": "/data/d", "start_from": ")" + start_from + R"("})");
    const CheckedConfig checked = check_config(profile, "name: n\n", "");
    return checked.faults.empty() ? "" : checked.faults[0].pointer;
  };
  EXPECT_EQ(fault("", {"/data"}), "");
  EXPECT_EQ(fault("/data/models/update-00000001", {"/data"}), "");
  EXPECT_EQ(fault("/server/runs/r/checkpoints/update-00000001", {"/data"}), "");
  EXPECT_EQ(fault("/etc", {"/data"}), "/training/start_from");
  EXPECT_EQ(fault("/etc", {}), "");
}

/// A server that is killed during the check leaves nothing behind: there is no file.
TEST_F(LauncherTest, TheWorkerReadsAConfigurationThatIsNoFile) {
  const auto seen = folder_ / "seen", list = folder_ / "list", temporary = folder_ / "tmp";
  std::filesystem::create_directory(temporary);
  Profile profile;
  profile.worker = (folder_ / "worker").string();
  write_file_atomically(profile.worker, "#!/bin/sh\ncat \"$3\" > " + seen.string() + "\nls \"$TMPDIR\" > " +
                                            list.string() + "\necho '{\"config\": \"\", \"name\": \"n\"}'\n");
  std::filesystem::permissions(profile.worker, std::filesystem::perms::owner_all);
  const char* before = std::getenv("TMPDIR");
  const std::string kept = before == nullptr ? "" : before;
  setenv("TMPDIR", temporary.c_str(), 1);
  const std::string yaml = "name: n\n" + std::string(300'000, '#') + "\n";
  EXPECT_EQ(check_config(profile, yaml, "").name, "n");
  before == nullptr ? unsetenv("TMPDIR") : setenv("TMPDIR", kept.c_str(), 1);
  EXPECT_EQ(read_file(seen), yaml);
  EXPECT_EQ(read_file(list), "");
}

TEST_F(LauncherTest, DataMustLieBelowARootThatNeedNotBeHere) {
  Profile profile;
  profile.name = "p";
  profile.data_is_here = false;
  profile.worker = printer_of(R"({"config": "", "name": "n", "data_folder": "/absent/data/ende"})");
  const auto faults = [&](std::vector<std::string> roots) {
    profile.data_roots = std::move(roots);
    return check_config(profile, "name: n\n", "").faults.size();
  };
  EXPECT_EQ(faults({}), 0U);
  EXPECT_EQ(faults({"/absent/data"}), 0U);
  EXPECT_EQ(faults({"/other", "/absent/data/"}), 0U);
  EXPECT_EQ(faults({"/"}), 0U);
  EXPECT_EQ(faults({"/absent/dat"}), 1U);
  EXPECT_EQ(faults({"/absent/data/ende/fr"}), 1U);
  const std::string long_name(300, 'x');
  profile.worker = printer_of(R"({"config": "", "name": "n", "data_folder": "/)" + long_name + R"("})");
  EXPECT_EQ(faults({"/absent/data"}), 1U) << "a name that no file system takes is a fault like another";
}

}  // namespace
}  // namespace babelring::launch
