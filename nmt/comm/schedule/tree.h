#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/gradient_sums.h"
#include "nmt/comm/schedule/ring.h"
#include "nmt/core/shards.h"

namespace babelring {

/// A tree over all ranks with rank 0 as its root, for collectives with little payload. Equal on all ranks.
class RankTree {
 public:
  /// A binomial tree over the numbers of the ranks: the parent of a rank lacks its lowest bit.
  static RankTree by_number(int ranks);
  /// Two levels: the first rank of each host is the parent of the host's other ranks, and the first ranks form a
  /// binomial tree over the hosts, in the order of their lowest ranks. So only first ranks talk to other hosts, each
  /// with at most log2(hosts) of them.
  static RankTree by_host(const std::vector<std::string>& hosts);

  int ranks() const { return static_cast<int>(parents_.size()); }
  /// -1 for the root.
  int parent(int rank) const { return parents_[static_cast<std::size_t>(rank)]; }
  /// Ascending.
  std::vector<int> children(int rank) const;
  /// Parent and children.
  std::vector<int> neighbours(int rank) const;
  /// The neighbour of `from` on the way to `to`; `from` itself if they are equal.
  int toward(int from, int to) const;

 private:
  explicit RankTree(std::vector<int> parents) : parents_(std::move(parents)) {}
  std::vector<int> parents_;
};

/// The ranks that `rank` polls for signs of life: all of its host, and on other hosts its neighbours in the ring (of
/// the ranks with its index, if hosts have equal numbers of ranks) and in the tree of hosts, with which it is connected
/// anyway.
std::vector<int> peers_to_ask(const std::vector<std::string>& hosts, int rank);

/// Merges bits on their way up a tree: sets those of `own` that are set in `below`. Throws CommError unless both have
/// the same size.
void or_bytes(std::string& own, const std::string& below);

/// One exchange of a rank in MpiTree. A range may be empty: then nothing is sent or received.
struct TreeStep {
  int peer;
  bool adding;  // received values are added; otherwise they are final sums
  ElementRange sent, received;
};

/// The exchanges of the rank at this position that sum `count` elements over all ranks, in order. The steps of two
/// peers match: what one sends the other receives. See MpiTree.
std::vector<TreeStep> tree_steps(const RingPosition& ring, std::int64_t count);

/// The exchanges by which each rank of a power of two gets the sums of one stripe of `stripe` elements: the first half
/// of tree_steps(), with parts of whole stripes. `count` elements are at most one stripe for each rank.
std::vector<TreeStep> tree_scatter_steps(const RingPosition& ring, std::int64_t count, std::int64_t stripe);

/// The stripe that the rank at `position` of `ranks`, a power of two, gets by tree_scatter_steps().
int tree_scattered_stripe(int position, int ranks);

/// Elements that a rank sends in `steps`.
std::int64_t elements_sent(const std::vector<TreeStep>& steps);

/// Elements that the rank at this position sends in its tree_steps().
std::int64_t tree_elements_sent(const RingPosition& ring, std::int64_t count);

}  // namespace babelring
