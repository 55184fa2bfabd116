#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <csignal>

#include "base/records/run_marks.h"
#include "base/text.h"
#include "server/launch/launcher.h"
#include "server/launch/mpirun_launcher.h"
#include "server/launch/process.h"
#include "server/launch/profile.h"
#include "server/launch/slurm_launcher.h"

namespace babelring::launch {
namespace {

using namespace std::chrono_literals;

TEST(ProcTable, ReadsNamesThatTryToMislead) {
  const auto facts = parse_process("42 (a) R 1 (b)) S 7 42 41 0 -1 4 1 2 3 4 5 6 7 8 20 0 1 0 98765 1 2");
  ASSERT_TRUE(facts);
  EXPECT_EQ(facts->pid, 42);
  EXPECT_EQ(facts->state, 'S');
  EXPECT_EQ(facts->parent, 7);
  EXPECT_EQ(facts->session, 41);
  EXPECT_EQ(facts->start_ticks, 98765);
  for (const char* text : {"", "42", "42 (a", "42 (a)", ") 1 (", "x (a) S 7 42 41"}) EXPECT_FALSE(parse_process(text));
  EXPECT_EQ(find_process(getpid())->pid, getpid());
}

TEST(Process, RunsWithinLimits) {
  const auto run = [](std::vector<std::string> arguments, ProgramLimits limits = {}) {
    return run_program({.arguments = std::move(arguments), .environment = plain_environment()}, limits);
  };
  const auto said = run({"/bin/sh", "-c", "echo out; echo err >&2; exit 7"});
  EXPECT_EQ(said.code, 7);
  EXPECT_EQ(said.output, "out\n");
  EXPECT_EQ(said.complaint, "err\n");
  EXPECT_EQ(run({"/bin/sh", "-c", "kill -9 $$"}).code, 137);
  EXPECT_EQ(run({"/bin/sleep", "60"}, {.time = 100ms}).code, -1);
  EXPECT_EQ(run({"/bin/sh", "-c", "exec >&- 2>&-; sleep 60"}, {.time = 100ms}).code, -1);
  EXPECT_EQ(run({"/bin/cat", "/dev/zero"}, {.output_bytes = 10000}).code, -1);
  EXPECT_THROW(run({"/dev/null/program"}), Failure);
}

TEST(Process, LeadsASessionThatIsFoundByItsMarks) {
  const std::string mark =
      "BABELRING_RUN=r_" + std::to_string(getpid()) + "_test";  // others may run this test beside us
  const pid_t pid = start_process({.arguments = {"/bin/sleep", "600"}, .environment = {mark}});
  EXPECT_FALSE(poll_child(pid));
  EXPECT_EQ(find_process(pid)->session, pid);
  EXPECT_EQ(session_members(pid).size(), 1U);
  ASSERT_EQ(leaders_with_environment({mark}).size(), 1U);
  EXPECT_TRUE(leaders_with_environment({mark.substr(0, mark.size() - 1)}).empty());
  kill(pid, SIGKILL);
  std::optional<Ended> ended;
  while (!(ended = poll_child(pid))) usleep(1000);
  EXPECT_EQ(ended->code, 137);
}

TEST(Process, FindsALeaderThatIsStillBeingMade) {
  const std::string mark = "BABELRING_RUN=r_" + std::to_string(getpid()) + "_young";
  for (int round = 0; round < 20; ++round) {  // most are seen before execve is through
    const pid_t pid = start_process({.arguments = {"/bin/sleep", "600"}, .environment = {mark}});
    const auto leaders = leaders_with_environment({mark});
    kill(pid, SIGKILL);
    EXPECT_EQ(waitpid(pid, nullptr, 0), pid);
    ASSERT_EQ(leaders.size(), 1U) << "round " << round;
    EXPECT_EQ(leaders[0].pid, pid);
  }
}

TEST(Process, IsEndedWhenNobodyWaitsForIt) {
  std::atomic<int> asked = 0;
  const auto answer = run_program({.arguments = {"/bin/sleep", "600"}, .environment = plain_environment()},
                                  {.time = std::chrono::minutes(9), .abandoned = [&] { return ++asked > 2; }});
  EXPECT_EQ(answer.code, -1);
  EXPECT_EQ(answer.complaint, "/bin/sleep was killed: the request was abandoned");
}

TEST(Process, RunsAtALowerPriority) {
  const int ours = getpriority(PRIO_PROCESS, 0);
  if (ours > 16) GTEST_SKIP() << "the priority of this program is the lowest already";
  const std::string script = "until [ $(nice) -gt " + std::to_string(ours) + " ]; do sleep 0.01; done; nice";
  const auto answer =
      run_program({.arguments = {"/bin/sh", "-c", script}, .environment = plain_environment(), .nice = 3},
                  {.time = std::chrono::minutes(1)});
  EXPECT_EQ(answer.output, std::to_string(ours + 3) + "\n") << answer.complaint;
}

TEST(Process, QuotesForAShell) {
  const std::string text = "a'b \"$HOME\" `x` \n;";
  const auto answer = run_program(
      {.arguments = {"/bin/sh", "-c", "printf %s " + shell_quoted(text)}, .environment = plain_environment()}, {});
  EXPECT_EQ(answer.output, text);
}

TEST(Slurm, ReadsOnlyWhatIsWellFormed) {
  const auto jobs = parse_squeue(
      "12|RUNNING|0|babelring-r-1|None\n  13 | FAILED | 3:0 | n | NonZeroExitCode \n"
      "x|RUNNING|0|n|r\n\n14\n-1|RUNNING\n15|PENDING|0|n|\x1b[31mred");
  ASSERT_EQ(jobs.size(), 3U);
  EXPECT_EQ(jobs[0].id, "12");
  EXPECT_EQ(jobs[1].exit_code, 3);
  EXPECT_EQ(jobs[2].reason, "\\x1b[31mred");
  EXPECT_EQ(sight_of(jobs[0]).kind, ProcessStatus::Kind::alive);
  EXPECT_EQ(sight_of(jobs[1]).exit_code, 3);
  EXPECT_EQ(sight_of(jobs[2]).kind, ProcessStatus::Kind::pending);
  EXPECT_EQ(sight_of({.id = "1", .state = "COMPLETED"}).exit_code, 0);
  EXPECT_EQ(sight_of({.id = "1", .state = "PREEMPTED"}).kind, ProcessStatus::Kind::preempted);
  EXPECT_EQ(sight_of({.id = "1", .state = "NODE_FAIL"}).detail, "Slurm job 1: NODE_FAIL");
  EXPECT_EQ(sight_of({.id = "1", .state = "NODE_FAIL"}).cause, ProcessStatus::Cause::revoked);
  EXPECT_EQ(sight_of({.id = "1", .state = "CANCELLED"}).cause, ProcessStatus::Cause::cancelled);
  EXPECT_EQ(sight_of({.id = "1", .state = "FAILED", .exit_code = 3}).cause, ProcessStatus::Cause::own);
  EXPECT_EQ(parse_sbatch("4711\n"), "4711");
  EXPECT_EQ(parse_sbatch("4711;cluster\n"), "4711");
  for (const char* text : {"", "sbatch: error", "47 11", "-1", "99999999999999999999999"})
    EXPECT_EQ(parse_sbatch(text), "");
}

TEST(LauncherLog, HasTheLastErrorOfAWorker) {
  EXPECT_EQ(last_error_line("1 [rank 0] error: first\n2 [rank 1] error: second\x01\nend"), "second\\x01");
  EXPECT_EQ(last_error_line("nothing"), "");
}

TEST(Profiles, ReadsAFileAndSaysWhatIsWrongWhere) {
  const auto profiles = read_profiles(
      "cluster:\n  hosts: [a:2, b:2]\n  max_ranks: 4\n  environment: [X=1]\nmpirun-local:\n  most_running: 3\n", "f");
  EXPECT_EQ(profiles.size(), 2U);
  EXPECT_EQ(profiles.at("cluster").hosts.size(), 2U);
  EXPECT_EQ(profiles.at("mpirun-local").max_running, 3) << "by its older name";
  EXPECT_EQ(read_profiles("", "f").size(), 1U);
  const auto complaint = [](const std::string& yaml) -> std::string {
    try {
      read_profiles(yaml, "f");
      return "";
    } catch (const UsageFailure& failure) {
      return failure.what();
    }
  };
  EXPECT_EQ(complaint("c:\n  launcher: ssh\n").substr(0, 9), "f:2:13: c");
  EXPECT_EQ(complaint("c:\n  mostranks: 1\n").substr(0, 6), "f:2:3:");
  EXPECT_EQ(complaint("external:\n  max_ranks: 1\n").substr(0, 6), "f:1:1:");
  EXPECT_NE(complaint("- a\n"), "");
  EXPECT_NE(complaint("a: [b\n"), "");
  EXPECT_EQ(complaint("c:\n  hosts: [a:2]\n  max_ranks: 3\n"), "c.max_ranks: 3, but its hosts have 2 slots");
  EXPECT_NE(complaint("c:\n  hosts: [\"a:0\"]\n"), "");
  EXPECT_NE(complaint("c:\n  hosts: [\"-x\"]\n"), "");
  EXPECT_NE(complaint("c:\n  environment: [novalue]\n"), "");
  EXPECT_NE(complaint("c:\n  launcher: slurm\n  hosts: [a]\n"), "");
  EXPECT_EQ(complaint("c:\n  hosts: [a:2]\n  max_ranks: 2\n  minimum_ranks: 3\n"),
            "c.minimum_ranks: 3, but max_ranks is 2");
  EXPECT_EQ(complaint("c:\n  minimum_ranks: 2\n"), "c.minimum_ranks: 2, but the profile has no hosts; expected 0");
}

TEST(Profiles, KnowConfigurationsThatNeedAPowerOfTwoOfRanks) {
  EXPECT_TRUE(needs_power_of_two("training:\n  reproducible: ranks\n"));
  EXPECT_FALSE(needs_power_of_two("training:\n  reproducible: run\n"));
  for (const char* text : {"name: x\n", "training: 3\n", "", "[a"}) EXPECT_FALSE(needs_power_of_two(text)) << text;
}

TEST(Fence, KeepsTheNewest) {
  std::string name = std::filesystem::temp_directory_path() / "babelring-fence-XXXXXX";
  const std::filesystem::path folder = mkdtemp(name.data());
  EXPECT_EQ(fenced_attempt(folder), 0);
  write_fence(folder, 3);
  write_fence(folder, 2);
  EXPECT_EQ(fenced_attempt(folder), 3);
  std::filesystem::remove_all(folder);
}

}  // namespace
}  // namespace babelring::launch
