#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <vector>

#include "base/clock.h"
#include "nmt/comm/mpi_handles.h"

namespace babelring {

/// Distinguishes a stopped or lost peer from one that is only late. While a collective waits, a rank queries every
/// peer. The peer's communication thread replies, even if its main thread is busy, with the number of collectives that
/// its main thread has entered. Used only by the communication thread; nothing blocks. Throws CommError.
class PeerMonitor {
 public:
  PeerMonitor(const MpiChannel& channel, int rank, int ranks);

  /// Receives queries and replies. Replies to queries that this rank has entered `entered` collectives.
  void serve(std::int64_t entered);
  /// Sends a query to every peer except those that still owe a reply.
  void ask();

  struct Peer {
    std::optional<SteadyClock::time_point> unanswered_since;
    std::optional<std::int64_t> entered;  // number of collectives, from its last reply
  };
  const std::vector<Peer>& peers() const { return peers_; }

 private:
  struct Outgoing {
    std::int64_t entered;
    MpiRequest request;
  };
  void send(std::int64_t entered, int peer, int tag);

  MPI_Comm comm_;
  int rank_;
  std::vector<Peer> peers_;
  std::deque<Outgoing> outgoing_;  // a deque keeps addresses stable: MPI reads the values until they are sent
};

}  // namespace babelring
