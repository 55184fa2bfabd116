#include "nmt/comm/schedule/ring.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <set>

#include "nmt/comm/host_name.h"

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
    const RingPosition ring = ring_position(hosts, rank);
    EXPECT_EQ(ring.position, static_cast<int>(walk.ranks.size()));
    EXPECT_EQ(ring.ranks, static_cast<int>(hosts.size()));
    EXPECT_EQ(ring_position(hosts, ring.right).left, rank);
    EXPECT_EQ(ring.order[walk.ranks.size()], rank);
    walk.ranks.push_back(rank);
    walk.between_hosts += hosts[static_cast<std::size_t>(rank)] != hosts[static_cast<std::size_t>(ring.right)] ? 1 : 0;
    rank = ring.right;
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

TEST(HostNames, AreNumberedWhereMachinesAreCalledTheSame) {
  using Names = std::vector<std::string>;
  EXPECT_EQ(distinct_host_names({"a", "a", "b"}, {"1", "1", "2"}), (Names{"a", "a", "b"}));
  EXPECT_EQ(distinct_host_names({"node", "node", "node", "node"}, {"1", "2", "1", "2"}),
            (Names{"node", "node-2", "node", "node-2"}));
  EXPECT_EQ(distinct_host_names({"node", "node", "node-2", "node"}, {"1", "2", "3", "4"}),
            (Names{"node", "node-3", "node-2", "node-4"}))
      << "node-2 is another host's own name";
  EXPECT_FALSE(host_identity().empty());
}

TEST(HostNames, FindsBridgesWithoutHardware) {
  const std::filesystem::path sys = testing::TempDir() + "/host_names_sys", net = sys / "class/net";
  std::filesystem::remove_all(sys);
  const auto make = [&](const std::string& folder) { std::filesystem::create_directories(net / folder); };
  for (const char* folder : {"docker0/bridge", "docker0/lower_veth1", "veth1", "virbr0/bridge"}) make(folder);
  for (const char* folder : {"br0/bridge", "br0/lower_bond0", "bond0/lower_eth0", "eth0/device", "eth1/device"}) {
    make(folder);
  }
  EXPECT_EQ(local_bridges(sys), (std::vector<std::string>{"docker0", "virbr0"}));
  EXPECT_EQ(local_bridges(sys / "absent"), std::vector<std::string>());
}

TEST(HostNames, AvoidsBridgesOnlyIfAnotherNetworkRemains) {
  const std::vector<std::string> bridges = {"docker0", "virbr0"};
  const HostNetwork docker{"docker0", "172.17.0.1/16"}, eth{"eth0", "10.0.0.5/24"};
  EXPECT_EQ(bridges_to_avoid(bridges, {docker, eth}), bridges);
  EXPECT_EQ(bridges_to_avoid(bridges, {docker}), std::vector<std::string>()) << "the only network joins the hosts";
  EXPECT_EQ(bridges_to_avoid(bridges, {}), std::vector<std::string>());
  EXPECT_EQ(bridges_to_avoid({}, {eth}), std::vector<std::string>());
}

TEST(HostPosition, JoinsRanksOfOneIndexOverHosts) {
  const std::vector<std::string> by_node = {"b", "a", "b", "a", "c", "c"};
  const std::vector<std::vector<int>> rings = {{0, 1, 4}, {2, 3, 5}};
  for (std::size_t index = 0; index < rings.size(); ++index) {
    for (std::size_t host = 0; host < 3; ++host) {
      const int rank = rings[index][host];
      const std::optional<HostPosition> place = host_position(by_node, rank);
      ASSERT_TRUE(place);
      EXPECT_EQ(place->local_ranks, (std::vector{rings[0][host], rings[1][host]}));
      EXPECT_EQ(place->between.position, static_cast<int>(host));
      EXPECT_EQ(place->between.ranks, 3);
      EXPECT_EQ(place->between.right, rings[index][(host + 1) % 3]);
      EXPECT_EQ(place->between.left, rings[index][(host + 2) % 3]);
    }
  }
}

TEST(HostPosition, IsARingOfOneOnASingleHost) {
  const std::optional<HostPosition> place = host_position({"a", "a", "a"}, 1);
  ASSERT_TRUE(place);
  EXPECT_EQ(place->local_ranks, (std::vector{0, 1, 2}));
  EXPECT_EQ(place->between.ranks, 1);
  EXPECT_EQ(place->between.right, 1);
}

TEST(HostPosition, IsAbsentOnEveryRankIfHostsDiffer) {
  for (int rank = 0; rank < 4; ++rank) EXPECT_FALSE(host_position({"a", "b", "b", "b"}, rank)) << rank;
}

}  // namespace

}  // namespace babelring
