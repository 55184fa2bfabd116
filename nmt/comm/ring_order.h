#pragma once

#include <string>
#include <vector>

namespace babelring {

/// Where a rank stands in the ring: it sends to `right` and receives from `left` (ranks).
struct RingPlace {
  int position = 0, ranks = 1;
  int left = 0, right = 0;
};

/// The ring goes through all ranks of a host before it leaves it, so that one rank of each host sends to another host
/// and one receives, however ranks were numbered (mpirun --map-by node numbers them across hosts). Hosts come in the
/// order of their lowest ranks, the ranks of a host in theirs. `hosts`: of each rank.
RingPlace ring_place(const std::vector<std::string>& hosts, int rank);

}  // namespace babelring
