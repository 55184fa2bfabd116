#pragma once

#include <string>
#include <vector>

#include "nmt/comm/communicator.h"

namespace babelring {

/// The processes of this host's other ranks: whether they are still there is known at once and without MPI, whose
/// connections to a lost process take their time to fail.
class LocalPeers {
 public:
  /// One all_gather.
  explicit LocalPeers(Communicator& communicator);

  /// "rank 3 (host hostB)" for each one that has ended, killed or by itself, separated by commas; empty: all are there.
  /// Zombies have ended. From any thread.
  std::string ended() const;

 private:
  struct Peer {
    int rank;
    std::string host;
    std::int64_t pid;
  };
  std::vector<Peer> peers_;
};

}  // namespace babelring
