#include "nmt/comm/schedule/tree.h"

#include <gtest/gtest.h>

namespace babelring {
namespace {

using Ranks = std::vector<int>;

TEST(RankTree, FollowsTheNumbersOfTheRanks) {
  const RankTree tree = RankTree::by_number(6);
  EXPECT_EQ(tree.parent(0), -1);
  EXPECT_EQ(tree.children(0), (Ranks{1, 2, 4}));
  EXPECT_EQ(tree.neighbours(4), (Ranks{5, 0}));
  EXPECT_EQ(tree.children(3), Ranks());
}

TEST(RankTree, OnlyFirstRanksOfHostsTalkToOtherHosts) {
  const RankTree tree = RankTree::by_host({"a", "b", "a", "b", "c"});
  EXPECT_EQ(tree.children(0), (Ranks{1, 2, 4}));
  EXPECT_EQ(tree.children(1), (Ranks{3}));
  EXPECT_EQ(tree.parent(3), 1);
  EXPECT_EQ(tree.parent(4), 0);
}

TEST(RankTree, KnowsTheWay) {
  const RankTree tree = RankTree::by_host({"a", "a", "b", "b", "c", "c", "d", "d"});  // d's parent is c
  EXPECT_EQ(tree.toward(7, 1), 6);
  EXPECT_EQ(tree.toward(6, 1), 4);
  EXPECT_EQ(tree.toward(4, 1), 0);
  EXPECT_EQ(tree.toward(0, 1), 1);
  EXPECT_EQ(tree.toward(0, 7), 4);
  EXPECT_EQ(tree.toward(4, 7), 6);
  EXPECT_EQ(tree.toward(5, 5), 5);
}

TEST(RankTree, PeersAreTheOwnHostAndNeighboursElsewhere) {
  const std::vector<std::string> hosts{"a", "a", "b", "b", "c", "c", "d", "d"};
  EXPECT_EQ(peers_to_ask(hosts, 0), (Ranks{1, 2, 4, 6}));
  EXPECT_EQ(peers_to_ask(hosts, 5), (Ranks{3, 4, 7}));
  EXPECT_EQ(peers_to_ask({"a", "a", "a"}, 1), (Ranks{0, 2}));
  EXPECT_EQ(peers_to_ask({"a"}, 0), Ranks());
}

}  // namespace

}  // namespace babelring
