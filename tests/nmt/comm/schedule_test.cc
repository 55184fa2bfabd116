#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <deque>
#include <set>

#include "nmt/comm/mpi/peer_monitor.h"
#include "nmt/comm/schedule/ring.h"
#include "nmt/comm/schedule/tree.h"

namespace babelring {
namespace {

constexpr int host_count = 50, ranks_per_host = 24, all_ranks = host_count * ranks_per_host;

/// 50 hosts of 24 ranks; `cyclic`: numbered across hosts, as by mpirun --map-by node.
std::vector<std::string> cluster(bool cyclic = false) {
  std::vector<std::string> hosts;
  for (int rank = 0; rank < all_ranks; ++rank) {
    hosts.push_back(std::to_string(cyclic ? rank % host_count : rank / ranks_per_host));
  }
  return hosts;
}

/// peers_to_ask() of every rank of cluster().
const std::vector<std::vector<int>>& cluster_peers() {
  static const std::vector<std::vector<int>> peers = [] {
    std::vector<std::vector<int>> made;
    const std::vector<std::string> hosts = cluster();
    for (int rank = 0; rank < all_ranks; ++rank) made.push_back(peers_to_ask(hosts, rank));
    return made;
  }();
  return peers;
}

int floor_log2(int number) {
  return static_cast<int>(std::log2(number));
}

TEST(Schedule, ARankOfALargeClusterHasFewConnectionsToOtherHosts) {
  for (const bool cyclic : {false, true}) {
    const std::vector<std::string> hosts = cluster(cyclic);
    const RankTree tree = RankTree::by_host(hosts);
    int first_ranks = 0;
    for (int rank = 0; rank < all_ranks; ++rank) {
      std::set<int> connected;
      const auto add = [&](int peer) {
        if (hosts[static_cast<std::size_t>(peer)] != hosts[static_cast<std::size_t>(rank)]) connected.insert(peer);
      };
      for (const int peer : tree.neighbours(rank)) add(peer);
      for (const int peer : peers_to_ask(hosts, rank)) add(peer);
      const RingPosition between = host_position(hosts, rank)->between;
      add(between.left);
      add(between.right);
      for (const TreeStep& step : tree_steps(between, 1000)) add(step.peer);
      const bool first = tree.parent(rank) < 0 || tree.parent(tree.parent(rank)) >= 0 ||
                         hosts[static_cast<std::size_t>(tree.parent(rank))] != hosts[static_cast<std::size_t>(rank)];
      const bool leads = first && (tree.children(rank).size() >= ranks_per_host - 1);
      first_ranks += leads ? 1 : 0;
      EXPECT_LE(connected.size(), leads ? 2U + 6U + 2U : 2U + 6U) << "rank " << rank;
    }
    EXPECT_EQ(first_ranks, host_count);
  }
}

TEST(Schedule, TheTreeGathersAndAnswersInFewSteps) {
  const RankTree tree = RankTree::by_host(cluster());
  std::vector<int> gathered_at(all_ranks, -1), below(all_ranks, 1);
  // A rank sends in the step after its last child has sent.
  for (int rank = all_ranks - 1; rank >= 0; --rank) {  // children have higher numbers than their parents
    int step = 0;
    for (const int child : tree.children(rank)) {
      ASSERT_GT(child, rank);
      step = std::max(step, gathered_at[static_cast<std::size_t>(child)] + 1);
      below[static_cast<std::size_t>(rank)] += below[static_cast<std::size_t>(child)];
    }
    gathered_at[static_cast<std::size_t>(rank)] = step;
  }
  EXPECT_EQ(below[0], all_ranks) << "each rank once";
  EXPECT_LE(gathered_at[0], 1 + floor_log2(host_count)) << "and as many steps back";
}

TEST(Schedule, ABroadcastReachesEveryRankOnceFromAnyRoot) {
  const RankTree tree = RankTree::by_host(cluster(true));
  for (const int root : {0, 1, 49, 50, 777, all_ranks - 1}) {
    std::vector<int> received(all_ranks, 0);
    received[static_cast<std::size_t>(root)] = 1;
    std::deque<int> senders{root};
    while (!senders.empty()) {
      const int rank = senders.front();
      senders.pop_front();
      const int from = tree.toward(rank, root);
      for (const int target : tree.neighbours(rank)) {
        if (target == from && rank != root) continue;
        EXPECT_EQ(tree.toward(target, root), rank) << "the target expects it from somebody else";
        ++received[static_cast<std::size_t>(target)];
        senders.push_back(target);
      }
    }
    EXPECT_TRUE(std::all_of(received.begin(), received.end(), [](int times) { return times == 1; })) << "root " << root;
  }
}

/// One position of a ring, as MpiRing drives it: at most `window` messages of each direction in flight, a final sum is
/// received only after the send whose values it overwrites.
struct RingRank {
  RingCursor next_receive, next_send;
  std::int64_t sendable, sent = 0, delivered = 0, gathers = 0, bytes = 0;
  std::deque<std::pair<float*, int>> receives;
};

TEST(Schedule, TheRingOverHostsEndsAndSendsTwiceItsPayload) {
  constexpr std::size_t window = 32;
  constexpr std::int64_t count = 65'000'000 / ranks_per_host;  // a rank's share of all gradients of base in one bucket
  std::vector<RingRank> ring;
  const RingLayout layout{nullptr, count, host_count, 15 * 1024};
  for (int position = 0; position < host_count; ++position) {
    ring.push_back({RingCursor(layout, (position + host_count - 1) % host_count), RingCursor(layout, position),
                    (layout.chunk_count(position) + layout.segment - 1) / layout.segment});
  }
  bool moved = true;
  while (moved) {
    moved = false;
    for (RingRank& rank : ring) {
      while (!rank.next_receive.at_end() && rank.receives.size() < window &&
             (rank.next_receive.reducing() || rank.gathers < rank.delivered)) {
        rank.gathers += rank.next_receive.reducing() ? 0 : 1;
        rank.receives.emplace_back(rank.next_receive.data(), rank.next_receive.count());
        rank.next_receive.next();
      }
    }
    for (std::size_t position = 0; position < ring.size(); ++position) {
      RingRank &rank = ring[position], &right = ring[(position + 1) % ring.size()];
      while (!rank.next_send.at_end() && rank.sent < rank.sendable && !right.receives.empty()) {
        ASSERT_EQ(right.receives.front(), std::pair(rank.next_send.data(), rank.next_send.count()));
        rank.bytes += rank.next_send.count() * std::int64_t{sizeof(float)};
        right.receives.pop_front();
        ++right.sendable;
        ++rank.sent;
        ++rank.delivered;
        rank.next_send.next();
        moved = true;
      }
    }
  }
  for (const RingRank& rank : ring) {
    EXPECT_TRUE(rank.next_send.at_end() && rank.next_receive.at_end() && rank.receives.empty()) << "deadlock";
    EXPECT_NEAR(static_cast<double>(rank.bytes), 2.0 * (host_count - 1) / host_count * count * sizeof(float),
                8 * host_count);
  }
}

/// Position `position` of `ranks` whose numbers are their positions.
RingPosition position_of(int ranks, int position) {
  RingPosition ring{.position = position, .ranks = ranks, .order = {}};
  for (int rank = 0; rank < ranks; ++rank) ring.order.push_back(rank);
  return ring;
}

/// The terms that each element of each rank sums after tree_steps(), as "(0+1)", or "" after a step without its match.
std::vector<std::vector<std::string>> sums_of_tree(int ranks, std::int64_t count) {
  std::vector<std::vector<TreeStep>> steps;
  std::vector<std::vector<std::string>> sums;
  for (int rank = 0; rank < ranks; ++rank) {
    steps.push_back(tree_steps(position_of(ranks, rank), count));
    sums.emplace_back(static_cast<std::size_t>(count), std::to_string(rank));
  }
  std::vector<std::size_t> next(static_cast<std::size_t>(ranks), 0);
  const auto step_of = [&](std::size_t rank) {
    return next[rank] < steps[rank].size() ? &steps[rank][next[rank]] : nullptr;
  };
  for (bool moved = true; moved;) {
    moved = false;
    for (std::size_t rank = 0; rank < steps.size(); ++rank) {
      const TreeStep* own = step_of(rank);
      if (own == nullptr) continue;
      const auto peer = static_cast<std::size_t>(own->peer);
      const TreeStep* theirs = step_of(peer);
      if (theirs == nullptr || theirs->peer != static_cast<int>(rank)) continue;
      if (!(own->sent == theirs->received) || !(own->received == theirs->sent)) return {};
      const std::vector<std::string> before = sums[rank];
      const auto receive = [](std::vector<std::string>& to, const std::vector<std::string>& from, const TreeStep& step,
                              bool lower) {
        for (std::int64_t i = step.received.begin; i < step.received.end; ++i) {
          const auto at = static_cast<std::size_t>(i);
          to[at] = !step.adding ? from[at] : "(" + (lower ? to[at] + "+" + from[at] : from[at] + "+" + to[at]) + ")";
        }
      };
      receive(sums[rank], sums[peer], *own, rank < peer);
      receive(sums[peer], before, *theirs, peer < rank);
      ++next[rank];
      ++next[peer];
      moved = true;
    }
  }
  for (std::size_t rank = 0; rank < steps.size(); ++rank) {
    if (step_of(rank) != nullptr) return {};  // waits for ever
  }
  return sums;
}

TEST(Schedule, ATreeSumsEveryElementOnEveryRankInOneOrder) {
  for (int ranks = 1; ranks <= 50; ++ranks) {
    const auto sums = sums_of_tree(ranks, 100);
    ASSERT_EQ(sums.size(), static_cast<std::size_t>(ranks)) << "two steps do not match";
    for (const auto& of_rank : sums) {
      for (const std::string& sum : of_rank) ASSERT_EQ(sum, sums[0][0]) << ranks << " ranks";
    }
    EXPECT_EQ(std::count(sums[0][0].begin(), sums[0][0].end(), '+'), ranks - 1);
  }
  EXPECT_EQ(sums_of_tree(4, 3)[2][1], "((0+1)+(2+3))");
  EXPECT_EQ(sums_of_tree(6, 3)[5][1], "(((0+4)+(1+5))+(2+3))");
}

TEST(Schedule, ATreeOfPairsSendsAsMuchAsARing) {
  for (const int ranks : {2, 4, 8, 64}) {
    EXPECT_EQ(tree_elements_sent(position_of(ranks, ranks - 1), 6400), 2 * 6400 * (ranks - 1) / ranks);
  }
  EXPECT_EQ(tree_elements_sent(position_of(6, 5), 6400), 6400) << "gives everything once";
  EXPECT_EQ(tree_elements_sent(position_of(6, 1), 6400), 2 * 4800 + 6400);
}

TEST(Schedule, ATreeIsChosenWhereItsStepsAreWorthItsBytes) {
  constexpr std::int64_t mb = 1'000'000;
  for (const int ranks : {2, 3}) EXPECT_FALSE(tree_is_faster(ranks, 1)) << ranks;
  for (const int ranks : {4, 8, 16, 64}) EXPECT_TRUE(tree_is_faster(ranks, 1000 * mb)) << ranks;
  EXPECT_TRUE(tree_is_faster(6, 10'000));
  EXPECT_FALSE(tree_is_faster(6, mb));
  EXPECT_TRUE(tree_is_faster(host_count, mb));
  EXPECT_FALSE(tree_is_faster(host_count, 10 * mb));
}

/// All ranks wait; one does not answer. Each question and answer takes a millisecond.
class Silence {
 public:
  explicit Silence(int lost) : lost_(lost), hosts_(cluster()) {
    for (int rank = 0; rank < all_ranks; ++rank) {
      knowledge_.emplace_back(rank, cluster_peers()[static_cast<std::size_t>(rank)]);
    }
  }
  void pass(int seconds) {
    for (int tick = 0; tick < 50 * seconds; ++tick, now_ += std::chrono::milliseconds(20)) {
      for (int rank = 0; rank < all_ranks; ++rank) {
        if (rank == lost_) continue;
        for (const int peer : at(rank).due(now_, begin_, std::chrono::seconds(1))) ask(rank, peer);
      }
    }
  }
  /// The report of rank `rank` on ranks silent for two seconds.
  std::string silent(int rank) { return at(rank).silent(now_, std::chrono::seconds(2), hosts_); }
  std::int64_t questions() const { return questions_; }

 private:
  PeerKnowledge& at(int rank) { return knowledge_[static_cast<std::size_t>(rank)]; }
  void ask(int rank, int peer) {
    ++questions_;
    if (peer == lost_) return;
    const PeerKnowledge::Report answer = at(peer).report(rank, 7, now_ + std::chrono::milliseconds(1));
    at(rank).note(peer, answer, now_ + std::chrono::milliseconds(2));
  }

  int lost_;
  std::vector<std::string> hosts_;
  std::vector<PeerKnowledge> knowledge_;
  const SteadyClock::time_point begin_{std::chrono::hours(1)};
  SteadyClock::time_point now_ = begin_;
  std::int64_t questions_ = 0;
};

TEST(Schedule, EveryRankOfALargeClusterNamesTheLostOne) {
  for (const int lost : {0, 24, 25, 700}) {
    Silence silence(lost);
    silence.pass(12);
    const std::string name = "no answer from rank " + rank_name(lost, cluster()) + ": stopped or lost";
    for (int rank = 0; rank < all_ranks; ++rank) {
      if (rank == lost) continue;
      EXPECT_EQ(silence.silent(rank), name) << "rank " << rank;
    }
    EXPECT_LT(silence.questions(), std::int64_t{all_ranks} * (ranks_per_host + 8) * (12 + 6))
        << "one a second after a while";
  }
}

TEST(Schedule, NobodyIsNamedWhenAllAnswer) {
  Silence silence(-1);
  silence.pass(5);
  for (int rank = 0; rank < all_ranks; ++rank) EXPECT_EQ(silence.silent(rank), "");
}

/// Follows which ranks' values each rank has summed in each stripe.
TEST(Schedule, AScatteringTreeLeavesEachRankTheSumsOfItsStripe) {
  for (const int ranks : {2, 4, 16}) {
    constexpr std::int64_t stripe = 100;
    const std::int64_t count = ranks * stripe - 130;  // the last stripe is empty, the one before is not whole
    std::vector<std::string> hosts;
    for (int rank = 0; rank < ranks; ++rank) hosts.push_back(std::to_string(rank));
    std::vector<std::vector<TreeStep>> steps;
    std::vector<std::vector<int>> summed;  // by rank and stripe: the number of ranks whose values are in it
    std::set<int> stripes;
    for (int rank = 0; rank < ranks; ++rank) {
      steps.push_back(tree_scatter_steps(ring_position(hosts, rank), count, stripe));
      summed.emplace_back(static_cast<std::size_t>(ranks), 1);
      stripes.insert(tree_scattered_stripe(rank, ranks));
    }
    EXPECT_EQ(stripes.size(), static_cast<std::size_t>(ranks));
    for (std::size_t step = 0; step < steps[0].size(); ++step) {
      const auto before = summed;
      for (int rank = 0; rank < ranks; ++rank) {
        const auto& [peer, adding, sent, received] = steps[static_cast<std::size_t>(rank)][step];
        EXPECT_TRUE(adding);
        const TreeStep& of_peer = steps[static_cast<std::size_t>(peer)][step];
        EXPECT_EQ(of_peer.peer, rank);
        EXPECT_EQ(of_peer.sent, received);
        for (std::int64_t i = received.begin / stripe; i * stripe < received.end; ++i) {
          const auto at = static_cast<std::size_t>(i);
          summed[static_cast<std::size_t>(rank)][at] += before[static_cast<std::size_t>(peer)][at];
        }
      }
    }
    for (int rank = 0; rank < ranks; ++rank) {
      const int own = tree_scattered_stripe(rank, ranks);
      if (own * stripe < count) {
        EXPECT_EQ(summed[static_cast<std::size_t>(rank)][static_cast<std::size_t>(own)], ranks);
      }
      EXPECT_LE(elements_sent(steps[static_cast<std::size_t>(rank)]), (ranks - 1) * stripe);
    }
  }
}

}  // namespace
}  // namespace babelring
