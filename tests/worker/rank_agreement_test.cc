#include "worker/rank_agreement.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <thread>

#include "base/files.h"
#include "tests/nmt/comm/thread_communicator.h"
#include "tests/worker/log_capture.h"

namespace babelring {
namespace {

using Facts = std::vector<RankFact>;

const std::string digest_a(64, 'a'), digest_b(64, 'b');

Facts facts(const std::string& training_set, const std::string& kernels = "avx2") {
  return {{"training set", training_set, "every rank needs the same data.folder"},
          {"kernels", kernels, "every rank needs the same processor"}};
}

TEST(RankAgreement, SucceedsIfAllRanksAgree) {
  EXPECT_TRUE(compare_facts({facts(digest_a)}, {"hostA"}).ok());
  EXPECT_TRUE(compare_facts({facts(digest_a), facts(digest_a)}, {"hostA", "hostB"}).ok());
}

TEST(RankAgreement, NamesHostsAndBothValues) {
  EXPECT_EQ(
      compare_facts({facts(digest_a), facts(digest_a), facts(digest_b), facts(digest_b)},
                    {"hostA", "hostA", "hostB", "hostB"})
          .error(),
      "the ranks differ: hostA has training set aaaaaaaaaaaa…, hostB has bbbbbbbbbbbb…; every rank needs the same "
      "data.folder");
}

TEST(RankAgreement, NamesRanksIfRanksOnOneHostDiffer) {
  EXPECT_EQ(compare_facts({facts(digest_a), facts(digest_b)}, {"hostA", "hostA"}).error(),
            "the ranks differ: rank 0 (host hostA) has training set aaaaaaaaaaaa…, rank 1 (host hostA) has "
            "bbbbbbbbbbbb…; every rank needs the same data.folder");
}

TEST(RankAgreement, NamesEachDifferentFactAndAFewHosts) {
  std::vector<Facts> ranks{facts(digest_a)};
  std::vector<std::string> hosts{"first"};
  for (int i = 0; i < 50; ++i) {
    ranks.push_back(facts("", "avx512"));
    hosts.push_back("host" + std::to_string(i));
  }
  EXPECT_EQ(
      compare_facts(ranks, hosts).error(),
      "the ranks differ: first has training set aaaaaaaaaaaa…, host0, host1, host2, host3 and 46 more hosts have "
      "none; every rank needs the same data.folder; first has kernels avx2, host0, host1, host2, host3 and 46 more "
      "hosts have avx512; every rank needs the same processor");
}

TEST(RankAgreement, AnotherOpenMpiIsRefusedByRankHostAndVersion) {
  EXPECT_EQ(compare_facts({{open_mpi_fact({.open_mpi = "4.1.4"})}, {open_mpi_fact({.open_mpi = "5.0.7"})}},
                          {"hostA", "hostB"})
                .error(),
            "the ranks differ: rank 0 (host hostA) has Open MPI 4.1.4, rank 1 (host hostB) has 5.0.7; every rank needs "
            "the same version of Open MPI: install one on all hosts");
}

TEST(RankAgreement, AnotherOneDnnIsRefusedUnlessItIsAllowed) {
  const auto ranks = [](bool mixed) {
    return std::vector<Facts>{{onednn_fact({.onednn = "2.6.3"}, mixed)}, {onednn_fact({.onednn = "3.7.2"}, mixed)}};
  };
  const std::vector<std::string> hosts = {"hostA", "hostB"};
  EXPECT_EQ(
      compare_facts(ranks(false), hosts).error(),
      "the ranks differ: rank 0 (host hostA) has oneDNN 2.6.3, rank 1 (host hostB) has 3.7.2; every rank needs the "
      "same version of oneDNN: install one on all hosts, or allow others with communication.mixed_onednn=true");
  EXPECT_THAT(tolerated_differences(ranks(false), hosts), testing::IsEmpty());
  EXPECT_TRUE(compare_facts(ranks(true), hosts).ok());
  EXPECT_THAT(tolerated_differences(ranks(true), hosts),
              testing::ElementsAre("rank 0 (host hostA) has oneDNN 2.6.3, rank 1 (host hostB) has 3.7.2; "
                                   "communication.mixed_onednn allows it: the ranks' bf16 results may differ in their "
                                   "last bits"));
}

TEST(RankAgreement, RankZeroAloneWarnsOfAnAllowedDifferenceOnce) {
  const LogCapture log;
  ThreadGroup group(3);
  std::vector<std::thread> threads;
  for (int rank = 0; rank < 3; ++rank) {
    threads.emplace_back([&, rank] {
      const auto communicator = group.rank(rank);
      require_agreement({onednn_fact({.onednn = rank == 2 ? "3.7.2" : "2.6.3"}, true)}, *communicator);
    });
  }
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(log.count("rank 2 (host here) has 3.7.2; communication.mixed_onednn allows it"), 1) << log.text();
}

TEST(RankAgreement, AllRanksThrowTheSameFailure) {
  ThreadGroup group(3);
  std::vector<std::string> messages(3);
  std::vector<std::thread> threads;
  for (int rank = 0; rank < 3; ++rank) {
    threads.emplace_back([&, rank] {
      const auto communicator = group.rank(rank);
      require_agreement(facts(digest_a), *communicator);
      require_agreement({program_fact()}, *communicator);
      try {
        require_agreement(facts(rank == 1 ? digest_b : digest_a), *communicator);
      } catch (const UsageFailure& failure) {
        messages[static_cast<std::size_t>(rank)] = failure.what();
      }
    });
  }
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(
      messages[0],
      "the ranks differ: rank 0 (host here), rank 2 (host here) have training set aaaaaaaaaaaa…, rank 1 (host here) "
      "has bbbbbbbbbbbb…; every rank needs the same data.folder");
  EXPECT_THAT(messages, testing::Each(messages[0]));
}

TEST(RankAgreement, ProgramFactHasVersionAndBuild) {
  const std::string value = program_fact().value;
  EXPECT_THAT(value, testing::MatchesRegex(R"([0-9.]+ build [0-9a-f]+)"));
  const std::string build = value.substr(value.rfind(' ') + 1);
  EXPECT_EQ(build.size(), 12U);
  std::string id;  // of the linker, as raw bytes in the file
  for (std::size_t i = 0; i < build.size(); i += 2) id += static_cast<char>(std::stoi(build.substr(i, 2), nullptr, 16));
  EXPECT_NE(read_file("/proc/self/exe").find(std::string("GNU\0", 4) + id), std::string::npos);
}

}  // namespace
}  // namespace babelring
