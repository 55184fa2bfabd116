#include "base/open_mpi.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <string>

#include "base/files.h"

namespace babelring::open_mpi {
namespace {

using testing::ElementsAre;

/// Standard error and exit code of mpirun in one case.
struct Output {
  std::string text;
  int exit_code = 0;
};

Output captured(const std::string& version, const std::string& name) {
  static const std::string all =
      read_file(std::filesystem::path(BABELRING_SOURCE_DIR) / "tests/base/open_mpi_outputs.txt");
  const std::string head = "\n@ " + version + " " + name + " ";
  const std::size_t at = all.find(head);
  if (at == std::string::npos) throw std::out_of_range(head);
  const std::size_t line_end = all.find('\n', at + 1), next = all.find("\n@ ", line_end - 1);
  const std::size_t code = at + head.size();
  return {all.substr(line_end + 1, next == std::string::npos ? next : next - line_end),
          std::stoi(all.substr(code, line_end - code))};
}

class OpenMpi : public testing::TestWithParam<const char*> {
 protected:
  static std::string text(const std::string& name) { return captured(GetParam(), name).text; }
};

TEST_P(OpenMpi, NamesAKilledRank) {
  const auto here = find_lost_rank(text("killed_rank"));
  ASSERT_TRUE(here);
  EXPECT_EQ(here->rank, 1);
  EXPECT_EQ(here->host, "vm");
  EXPECT_EQ(here->how, "killed by signal 9");
  EXPECT_EQ(find_lost_rank(text("killed_rank_on_hostB"))->host, "hostB");
  for (const char* other : {"rank_exits_3", "rank_aborts", "link_down", "daemon_killed", "sigterm"}) {
    EXPECT_FALSE(find_lost_rank(text(other))) << other;
  }
}

TEST(OpenMpi5, ARankThatLostItsConnectionIsNotTheLostOne) {
  const std::string text = captured("5.0.7", "killed_rank_disconnects_another").text;
  EXPECT_FALSE(find_lost_rank(text));
  const auto lost = find_disconnected_rank(text);
  ASSERT_TRUE(lost);
  EXPECT_EQ(lost->rank, 3);
  EXPECT_EQ(lost->host, "hostB");
  EXPECT_EQ(lost->how, "lost: the connection of rank 1 to it closed");
  EXPECT_FALSE(find_disconnected_rank(text.substr(0, text.find("[rank 2]")))) << "only the aborted rank is known";
  EXPECT_FALSE(find_disconnected_rank(text.substr(text.find("2026")))) << "no rank lost its connection";
}

TEST_P(OpenMpi, NamesALostHost) {
  for (const char* name : {"link_down", "daemon_killed"}) {
    EXPECT_EQ(find_lost_host(text(name)), "hostB") << name;
    EXPECT_FALSE(find_start_failure(text(name))) << name;
  }
  for (const char* other : {"killed_rank", "killed_rank_on_hostB", "rank_exits_3", "rank_aborts", "sigterm"}) {
    EXPECT_EQ(find_lost_host(text(other)), "") << other;
  }
}

TEST_P(OpenMpi, NamesWhatKeptRanksFromStarting) {
  const auto host = find_start_failure(text("unknown_host"));
  ASSERT_TRUE(host);
  EXPECT_EQ(host->cause, "mpirun cannot reach nosuch: Could not resolve hostname nosuch: Name or service not known");
  EXPECT_EQ(host->host, "nosuch");
  const auto slots = find_start_failure(text("too_few_slots"));
  ASSERT_TRUE(slots);
  EXPECT_EQ(slots->cause, "mpirun has fewer slots than the 5 ranks");
  const auto program = find_start_failure(text("missing_program"));
  ASSERT_TRUE(program);
  EXPECT_EQ(program->cause, "mpirun could not start ./nosuchprogram on vm");
  EXPECT_EQ(program->host, "vm");
  for (const char* other : {"killed_rank", "rank_exits_3", "rank_aborts", "unknown_option", "sigterm"}) {
    EXPECT_FALSE(find_start_failure(text(other))) << other;
  }
}

INSTANTIATE_TEST_SUITE_P(Releases, OpenMpi, testing::Values("4.1.4", "5.0.7"), [](const auto& release) {
  return release.param[0] == '4' ? std::string("Four") : std::string("Five");
});

TEST(OpenMpiExitCode, TellsNothingOfALostHostInFive) {
  for (const char* name : {"link_down", "daemon_killed"}) {
    EXPECT_EQ(captured("4.1.4", name).exit_code, 205);
    EXPECT_EQ(captured("5.0.7", name).exit_code, 0);
  }
}

TEST(OpenMpiStart, NamesAnUnreachableHostAndAMissingDaemon) {
  const auto refused =
      find_start_failure("x\nssh: connect to host b.example.org port 22: Connection refused\nORTE was");
  ASSERT_TRUE(refused);
  EXPECT_EQ(refused->cause,
            "mpirun cannot reach b.example.org: connect to host b.example.org port 22: Connection refused");
  EXPECT_EQ(refused->host, "b.example.org");
  for (const char* text : {"bash: line 1: prted: command not found\n", "sh: 1: exec: prted: not found\n",
                           "bash: /usr/bin/prted: No such file or directory"}) {
    const auto daemon = find_start_failure(text);
    ASSERT_TRUE(daemon) << text;
    EXPECT_EQ(daemon->cause,
              "mpirun could not start prted on another host: it needs Open MPI 5 there, as on this host");
  }
}

TEST(OpenMpiWords, AreUntrusted) {
  EXPECT_FALSE(find_lost_rank("mpirun noticed that process rank x"));
  EXPECT_FALSE(find_lost_rank("mpirun noticed that process rank -1 with PID 0 on node a exited on signal 9"));
  EXPECT_EQ(find_lost_rank("mpirun noticed that process rank 2 with PID 0 on node a\x01 was")->host, "a\\x01");
  EXPECT_EQ(find_lost_host("ORTE has lost communication with a remote daemon.\n"), "");
  EXPECT_EQ(find_lost_host("on node hostB"), "");
  EXPECT_EQ(find_lost_host("PRTE has lost communication with a remote daemon.\n Remote daemon: [a@0,1] on node " +
                           std::string(2000, 'b'))
                .size(),
            253U);
  EXPECT_FALSE(find_start_failure("not enough slots available in the system to satisfy the many"));
}

TEST(OpenMpiVariables, AreSetForBothLaunchers) {
  EXPECT_THAT(for_both_launchers({"OMPI_MCA_plm_rsh_agent=/bin/agent", "OMPI_MCA_oob_tcp_if_include=10.0.0.0/8",
                                  "OMPI_MCA_btl_tcp_if_include=10.0.0.0/8", "X=1"}),
              ElementsAre("OMPI_MCA_plm_rsh_agent=/bin/agent", "OMPI_MCA_oob_tcp_if_include=10.0.0.0/8",
                          "OMPI_MCA_btl_tcp_if_include=10.0.0.0/8", "X=1", "PRTE_MCA_plm_ssh_agent=/bin/agent",
                          "PRTE_MCA_oob_tcp_if_include=10.0.0.0/8"));
  EXPECT_THAT(for_both_launchers({"PRTE_MCA_prte_default_hostfile=/h"}),
              ElementsAre("PRTE_MCA_prte_default_hostfile=/h", "OMPI_MCA_orte_default_hostfile=/h"));
  EXPECT_THAT(for_both_launchers({"OMPI_MCA_plm_rsh_agent=a", "PRTE_MCA_plm_ssh_agent=b"}),
              ElementsAre("OMPI_MCA_plm_rsh_agent=a", "PRTE_MCA_plm_ssh_agent=b"))
      << "a value that the user gave stays";
}

TEST(OpenMpiProcess, IsKnownByItsName) {
  for (const char* name : {"mpirun", "prterun", "orterun", "mpiexec"}) EXPECT_TRUE(is_mpirun(name)) << name;
  for (const char* name : {"orted", "prted", "worker", ""}) EXPECT_FALSE(is_mpirun(name)) << name;
}

}  // namespace
}  // namespace babelring::open_mpi
