#pragma once

#include <cstdint>
#include <vector>

#include "base/sum_tree.h"
#include "nmt/comm/schedule/ring_order.h"
#include "nmt/core/shards.h"

namespace babelring {

/// One exchange of a rank in MpiTree. A range may be empty: then nothing is sent or received.
struct TreeStep {
  int peer;
  bool adding;  // received values are added; otherwise they are final sums
  ElementRange sent, received;
};

/// The exchanges of the rank at `place` that sum `count` elements over all ranks, in order. The steps of two peers
/// match: what one sends the other receives. See MpiTree.
std::vector<TreeStep> tree_steps(const RingPlace& place, std::int64_t count);

/// The exchanges by which each rank of a power of two gets the sums of one stripe of `stripe` elements: the first half
/// of tree_steps(), with parts of whole stripes. `count` elements are at most one stripe for each rank.
std::vector<TreeStep> tree_scatter_steps(const RingPlace& place, std::int64_t count, std::int64_t stripe);

/// The stripe that the rank at `position` of `ranks`, a power of two, gets by tree_scatter_steps().
int tree_scattered_stripe(int position, int ranks);

/// Elements that a rank sends in `steps`.
std::int64_t elements_sent(const std::vector<TreeStep>& steps);

/// Elements that the rank at `place` sends in its tree_steps().
std::int64_t tree_elements_sent(const RingPlace& place, std::int64_t count);

}  // namespace babelring
