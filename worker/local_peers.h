#pragma once

#include <string>
#include <vector>

#include "nmt/comm/communicator.h"

namespace babelring {

/// The processes of the other ranks on this host. Detects their end through /proc at once, while MPI notices a lost
/// process only when its connections fail.
class LocalPeers {
 public:
  /// Collective: performs one all_gather.
  explicit LocalPeers(Communicator& communicator);

  /// The ranks whose process has ended, as "rank 3 (host hostB)" separated by commas; empty if all are running. Zombies
  /// count as ended. Thread-safe.
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
