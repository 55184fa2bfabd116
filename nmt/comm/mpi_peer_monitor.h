#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "nmt/comm/mpi_handles.h"

namespace babelring {

/// "1 (host b)", "1" if its host is unknown, "any" for -1.
std::string rank_name(int rank, const std::vector<std::string>& hosts);

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

  /// Names the peers that have owed a reply for `silence`: "no answer from rank 1 (host b): stopped or lost"; empty if
  /// there are none.
  std::string silent(Nanoseconds silence, const std::vector<std::string>& hosts) const;
  /// Names the peer that has entered the fewest collectives, if it has not entered collective `sequence`; otherwise
  /// empty.
  std::string behind(std::int64_t sequence, const std::vector<std::string>& hosts) const;

 private:
  struct Peer {
    std::optional<SteadyClock::time_point> unanswered_since;
    std::optional<std::int64_t> entered;  // number of collectives, from its last reply
  };
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
