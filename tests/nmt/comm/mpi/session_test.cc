#include "nmt/comm/mpi/session.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <future>
#include <map>

#include "base/failure.h"
#include "nmt/comm/mpi/probe.h"

namespace babelring {
namespace {

using std::chrono::milliseconds;

TEST(Watchdog, DoesNothingIfDestroyedInTime) {
  std::atomic<int> expired = 0;
  {
    const Watchdog watchdog(std::chrono::hours(1), [&] { ++expired; });
  }
  EXPECT_EQ(expired, 0);
}

TEST(Watchdog, CallsOnceAfterTheDeadline) {
  std::promise<void> called;
  std::atomic<int> expired = 0;
  {
    const Watchdog watchdog(milliseconds(1), [&] {
      ++expired;
      called.set_value();
    });
    called.get_future().wait();
  }
  EXPECT_EQ(expired, 1);
}

TEST(WatchdogDeathTest, EndsAHangingProcess) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(
      {
        const Watchdog watchdog(milliseconds(10), [] {
          std::fputs("it has not returned\n", stderr);
          _exit(7);
        });
        while (true) pause();
      },
      testing::ExitedWithCode(7), "it has not returned");
}

using Variables = std::map<std::string, std::string>;

/// The error message; empty if there is none.
std::string message_of(const Variables& variables, int ranks) {
  const auto promised = find_launched_ranks([&](const char* name) {
    const auto found = variables.find(name);
    return found == variables.end() ? nullptr : found->second.c_str();
  });
  try {
    require_launched_ranks(promised, ranks);
  } catch (const UsageFailure& failure) {
    return failure.what();
  }
  return "";
}

TEST(LaunchedRanks, RefusesMoreRanksThanMpiHas) {
  EXPECT_EQ(message_of({{"SLURM_NTASKS", "2"}, {"SLURM_STEP_NUM_TASKS", "2"}}, 1),
            "SLURM_STEP_NUM_TASKS=2 promises 2 ranks, but MPI has 1: each process would train by itself; start them by "
            "`mpirun -np 2 worker …` or `srun --mpi=pmix worker …`, or unset SLURM_STEP_NUM_TASKS to train with 1");
  EXPECT_THAT(message_of({{"SLURM_NTASKS", "4"}}, 1), testing::StartsWith("SLURM_NTASKS=4 promises 4 ranks"));
  EXPECT_THAT(message_of({{"PMI_RANK", "0"}, {"PMI_SIZE", "2"}}, 1),
              testing::HasSubstr("mpirun -np 2 worker …` of Open MPI"));
  EXPECT_THAT(message_of({{"WORLD_SIZE", "8"}, {"RANK", "3"}}, 1),
              testing::StartsWith("WORLD_SIZE=8 promises 8 ranks"));
  EXPECT_THAT(message_of({{"OMPI_COMM_WORLD_SIZE", "3"}}, 1), testing::StartsWith("OMPI_COMM_WORLD_SIZE=3"));
}

TEST(LaunchedRanks, AcceptsEqualFewerOrNoRanks) {
  EXPECT_EQ(message_of({}, 1), "");
  EXPECT_EQ(message_of({{"SLURM_STEP_NUM_TASKS", "2"}}, 2), "");
  EXPECT_EQ(message_of({{"WORLD_SIZE", "2"}}, 3), "");
  EXPECT_EQ(message_of({{"WORLD_SIZE", "many"}, {"PMI_SIZE", ""}, {"SLURM_NTASKS", "-2"}}, 1), "");
}

TEST(LaunchedRanks, InnermostLauncherTakesPrecedence) {
  EXPECT_EQ(message_of({{"SLURM_NTASKS", "8"}, {"SLURM_STEP_NUM_TASKS", "1"}}, 1), "") << "a step of one rank";
  EXPECT_EQ(message_of({{"SLURM_NTASKS", "8"}, {"WORLD_SIZE", "8"}, {"OMPI_COMM_WORLD_SIZE", "2"}}, 2), "")
      << "mpirun -np 2 in a batch job of eight tasks";
}

TEST(MpiProbe, KnowsTheVariablesOfLaunchers) {
  for (const char* name : {"OMPI_MCA_orte_hnp_uri", "OMPI_MCA_ess", "OMPI_MCA_ess_base_jobid", "PMIX_SERVER_URI41",
                           "PMIX_NAMESPACE", "PMI_RANK", "OMPI_COMM_WORLD_LOCAL_RANK", "OMPI_UNIVERSE_SIZE"}) {
    EXPECT_TRUE(set_by_launcher(name)) << name;
  }
  for (const char* name : {"OMPI_MCA_btl_tcp_if_include", "OMPI_ALLOW_RUN_AS_ROOT", "PATH", "SLURM_JOB_ID"}) {
    EXPECT_FALSE(set_by_launcher(name)) << name << " is the user's";
  }
}

}  // namespace

}  // namespace babelring
