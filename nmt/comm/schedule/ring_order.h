#pragma once

#include <optional>
#include <string>
#include <vector>

namespace babelring {

/// A rank's position in the ring. It sends to rank `right` and receives from rank `left`.
struct RingPlace {
  int position = 0, ranks = 1;
  int left = 0, right = 0;
  std::vector<int> order = {0};  // the ranks by position
};

/// Orders the ring so that the ranks of a host are adjacent. Each host then has one sender to another host and one
/// receiver, however ranks are numbered (mpirun --map-by node numbers them across hosts). Hosts are ordered by their
/// lowest rank, ranks within a host by rank. `hosts` holds each rank's host.
RingPlace ring_place(const std::vector<std::string>& hosts, int rank);

/// A rank's place among hosts that all have the same number of ranks.
struct HostPlace {
  std::vector<int> local_ranks;  // the ranks on this rank's host, ascending
  RingPlace between;             // ring of the ranks with this rank's index on their hosts; one rank on each host
};

/// Hosts are ordered by their lowest rank. Returns nullopt if hosts have different numbers of ranks.
std::optional<HostPlace> host_place(const std::vector<std::string>& hosts, int rank);

}  // namespace babelring
