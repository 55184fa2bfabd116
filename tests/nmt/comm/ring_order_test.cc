#include "nmt/comm/ring_order.h"

#include <gtest/gtest.h>

#include <set>

namespace babelring {
namespace {

/// Ranks in ring order from rank 0, and the number of hops between hosts.
struct Walk {
  std::vector<int> ranks;
  int between_hosts = 0;
};

Walk walk(const std::vector<std::string>& hosts) {
  Walk walk;
  int rank = 0;
  do {
    const RingPlace place = ring_place(hosts, rank);
    EXPECT_EQ(place.position, static_cast<int>(walk.ranks.size()));
    EXPECT_EQ(place.ranks, static_cast<int>(hosts.size()));
    EXPECT_EQ(ring_place(hosts, place.right).left, rank);
    EXPECT_EQ(place.order[walk.ranks.size()], rank);
    walk.ranks.push_back(rank);
    walk.between_hosts += hosts[static_cast<std::size_t>(rank)] != hosts[static_cast<std::size_t>(place.right)] ? 1 : 0;
    rank = place.right;
  } while (rank != 0 && walk.ranks.size() < hosts.size());
  return walk;
}

TEST(RingOrder, IsRankOrderIfHostsAreContiguous) {
  EXPECT_EQ(walk({"a"}).ranks, (std::vector{0}));
  EXPECT_EQ(walk({"a", "a", "a"}).ranks, (std::vector{0, 1, 2}));
  EXPECT_EQ(walk({"b", "b", "a", "a"}).ranks, (std::vector{0, 1, 2, 3}));
}

TEST(RingOrder, LeavesEachHostOnceForAnyNumbering) {
  const Walk by_node = walk({"a", "b", "a", "b"});
  EXPECT_EQ(by_node.ranks, (std::vector{0, 2, 1, 3}));
  EXPECT_EQ(by_node.between_hosts, 2);
  const Walk three = walk({"c", "a", "b", "a", "c", "b", "a", "c"});
  EXPECT_EQ(three.ranks, (std::vector{0, 4, 7, 1, 3, 6, 2, 5}));
  EXPECT_EQ(three.between_hosts, 3);
}

TEST(HostPlace, JoinsRanksOfOneIndexOverHosts) {
  const std::vector<std::string> by_node = {"b", "a", "b", "a", "c", "c"};
  const std::vector<std::vector<int>> rings = {{0, 1, 4}, {2, 3, 5}};
  for (std::size_t index = 0; index < rings.size(); ++index) {
    for (std::size_t host = 0; host < 3; ++host) {
      const int rank = rings[index][host];
      const std::optional<HostPlace> place = host_place(by_node, rank);
      ASSERT_TRUE(place);
      EXPECT_EQ(place->local_ranks, (std::vector{rings[0][host], rings[1][host]}));
      EXPECT_EQ(place->between.position, static_cast<int>(host));
      EXPECT_EQ(place->between.ranks, 3);
      EXPECT_EQ(place->between.right, rings[index][(host + 1) % 3]);
      EXPECT_EQ(place->between.left, rings[index][(host + 2) % 3]);
    }
  }
}

TEST(HostPlace, OfASingleHostIsARingOfOne) {
  const std::optional<HostPlace> place = host_place({"a", "a", "a"}, 1);
  ASSERT_TRUE(place);
  EXPECT_EQ(place->local_ranks, (std::vector{0, 1, 2}));
  EXPECT_EQ(place->between.ranks, 1);
  EXPECT_EQ(place->between.right, 1);
}

TEST(HostPlace, IsAbsentOnEveryRankIfHostsDiffer) {
  for (int rank = 0; rank < 4; ++rank) EXPECT_FALSE(host_place({"a", "b", "b", "b"}, rank)) << rank;
}

}  // namespace
}  // namespace babelring
