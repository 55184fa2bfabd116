#include "worker/rank_agreement.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <thread>

#include "tests/nmt/comm/thread_communicator.h"

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
  EXPECT_THAT(program_fact().value, testing::MatchesRegex(R"([0-9.]+ build [0-9a-f]+)"));
}

}  // namespace
}  // namespace babelring
