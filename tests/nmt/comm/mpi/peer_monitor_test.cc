#include "nmt/comm/mpi/peer_monitor.h"

#include <gtest/gtest.h>

namespace babelring {
namespace {

using std::chrono::milliseconds;

class PeerKnowledgeTest : public testing::Test {
 protected:
  std::vector<int> due() { return knowledge_.due(now_, begin_, std::chrono::seconds(1)); }
  std::string silent(int after_ms) { return knowledge_.silent(now_, milliseconds(after_ms), hosts_); }
  std::string behind(std::int64_t sequence) { return knowledge_.behind(now_, sequence, hosts_); }
  void answer_all(std::int64_t entered) {
    for (const int peer : knowledge_.peers())
      knowledge_.note(peer, {.entered = entered, .silent = {}, .behind = {}}, now_);
  }

  const std::vector<std::string> hosts_{"a", "a", "b", "b", "b"};
  const SteadyClock::time_point begin_{std::chrono::seconds(100)};
  SteadyClock::time_point now_ = begin_;
  PeerKnowledge knowledge_{0, {1, 2, 3, 4}};
};

TEST_F(PeerKnowledgeTest, AsksMoreAndMoreSlowly) {
  knowledge_.set_peers({1, 2, 0});
  std::vector<int> rounds;
  for (int ms = 0; ms < 5000; ms += 10, now_ += milliseconds(10)) {
    if (due().empty()) continue;
    rounds.push_back(ms);
    answer_all(9);
  }
  EXPECT_EQ(rounds, (std::vector{0, 20, 60, 140, 300, 620, 1260, 2260, 3260, 4260}));
  EXPECT_EQ(knowledge_.due(now_, now_, std::chrono::seconds(1)), (std::vector{1, 2})) << "another wait starts over";
}

TEST_F(PeerKnowledgeTest, NamesPeersThatOweAnAnswer) {
  knowledge_.set_peers({1, 2});
  EXPECT_EQ(due(), (std::vector{1, 2}));
  knowledge_.note(1, {.entered = 3, .silent = {}, .behind = {}}, now_);
  now_ += std::chrono::seconds(2);
  EXPECT_EQ(due(), (std::vector{1})) << "rank 2 is not asked again";
  EXPECT_EQ(silent(1500), "no answer from rank 2 (host b): stopped or lost");
  EXPECT_EQ(silent(2500), "");
}

TEST_F(PeerKnowledgeTest, PassesOnWhatItHasLearntButNotBack) {
  knowledge_.set_peers({1, 2});
  knowledge_.note(
      2, {.entered = 9, .silent = {.rank = 4, .value = 1000, .age_ms = 100}, .behind = {.rank = 3, .value = 5}}, now_);
  now_ += milliseconds(500);
  EXPECT_EQ(silent(1400), "no answer from rank 4 (host b): stopped or lost");
  EXPECT_EQ(silent(1600), "");
  EXPECT_EQ(behind(7), "rank 3 (host b) answers, but has entered only 5 collectives");
  EXPECT_EQ(behind(4), "");
  const PeerKnowledge::Report to_1 = knowledge_.report(1, 8, now_), to_2 = knowledge_.report(2, 8, now_);
  EXPECT_EQ(to_1.entered, 8);
  EXPECT_EQ(to_1.silent.rank, 4);
  EXPECT_EQ(to_1.silent.value, 1500);
  EXPECT_EQ(to_1.silent.age_ms, 600);
  EXPECT_EQ(to_1.behind.rank, 3);
  EXPECT_EQ(to_2.silent.rank, -1);
  EXPECT_NE(to_2.behind.rank, 3);
}

TEST_F(PeerKnowledgeTest, OldNewsAndNewsOfItselfAreDropped) {
  knowledge_.set_peers({1, 2});
  knowledge_.note(1, {.entered = 9, .silent = {.rank = 0, .value = 5000}, .behind = {.rank = 0, .value = 1}}, now_);
  knowledge_.note(2, {.entered = 9, .silent = {.rank = 1, .value = 5000}, .behind = {}}, now_);
  EXPECT_EQ(silent(100), "") << "rank 1 is a peer: it has just answered";
  EXPECT_EQ(behind(5), "");
  knowledge_.note(2, {.entered = 9, .silent = {.rank = 4, .value = 5000}, .behind = {}}, now_);
  EXPECT_NE(silent(100), "");
  now_ += std::chrono::seconds(11);
  EXPECT_EQ(silent(100), "");
}

TEST(RankName, HasTheHostIfItIsKnown) {
  EXPECT_EQ(rank_name(1, {"a", "b"}), "1 (host b)");
  EXPECT_EQ(rank_name(2, {"a", "b"}), "2");
  EXPECT_EQ(rank_name(-1, {"a"}), "any");
}

}  // namespace

}  // namespace babelring
