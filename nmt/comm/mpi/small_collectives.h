#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "nmt/comm/mpi/progress.h"
#include "nmt/comm/mpi/tree_collectives.h"
#include "nmt/comm/schedule/tree.h"

namespace babelring {

/// Blocking collectives of one rank with little payload: see Communicator. On one host sums and barriers are MPI's.
/// Between hosts everything travels through a RankTree, because MPI's own all-gathers connect every rank with every
/// other.
class SmallCollectives {
 public:
  /// `progress` must outlive the object. Until learn_hosts() the tree follows the numbers of the ranks.
  SmallCollectives(MpiProgress& progress, int rank, int ranks);
  /// Gathers the name of each rank's host, different for different hosts, and forms the tree by hosts from then on.
  std::vector<std::string> learn_hosts();

  /// Added in rank order, on every path.
  void sum(std::vector<double>& values);
  std::vector<std::string> all_gather(const std::string& text);
  void or_bits(std::vector<std::uint64_t>& words);
  void barrier();
  void broadcast(void* data, std::size_t bytes, int root);
  /// From rank 0 to the first rank of each other host. `data` of other ranks is not used.
  void broadcast_to_hosts(void* data, std::size_t bytes);
  std::vector<RoundTrip> round_trips(int count);

 private:
  void set_hosts(const std::vector<std::string>& hosts);
  void run(MpiProgress::Make make);
  std::string gather(std::string name, std::string own, TreeGather::Answer answer, TreeGather::Merge merge = {});
  void broadcast_blocks(char* data, std::size_t bytes, int root, int from, const std::vector<int>& targets);

  MpiProgress& progress_;
  int rank_, ranks_;
  std::shared_ptr<const RankTree> tree_;
  std::vector<int> first_ranks_;  // of each host, ascending
  bool one_host_ = false;
};

}  // namespace babelring
