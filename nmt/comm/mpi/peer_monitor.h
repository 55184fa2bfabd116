#pragma once

#include <cstdint>
#include <deque>
#include <string>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "nmt/comm/mpi/handles.h"
#include "nmt/comm/mpi/peer_knowledge.h"

namespace babelring {

/// Distinguishes a stopped or lost rank from one that is only late. While a collective waits, a rank asks its peers. A
/// peer's communication thread answers, even if its main thread is busy, with the number of collectives that its main
/// thread has entered and with its knowledge of others (PeerKnowledge). Used only by the communication thread; nothing
/// blocks. Throws CommError.
class PeerMonitor {
 public:
  /// `peers`: the ranks that it asks.
  PeerMonitor(const MpiChannel& channel, int rank, std::vector<int> peers)
      : comm_(channel.get()), knowledge_(rank, std::move(peers)) {}

  /// Sets whom this rank asks.
  void set_peers(std::vector<int> peers) { knowledge_.set_peers(std::move(peers)); }
  /// Receives questions and answers. Answers that this rank has entered `entered` collectives.
  void serve(std::int64_t entered);
  /// Asks the peers if a round is due: see PeerKnowledge::due().
  void ask(SteadyClock::time_point waiting_since, Nanoseconds longest);
  /// Sends what this rank knows to all peers, unasked: for the last moment before it gives up and no longer answers.
  void tell(std::int64_t entered);

  std::string silent(Nanoseconds silence, const std::vector<std::string>& hosts) const {
    return knowledge_.silent(SteadyClock::now(), silence, hosts);
  }
  std::string behind(std::int64_t sequence, const std::vector<std::string>& hosts) const {
    return knowledge_.behind(SteadyClock::now(), sequence, hosts);
  }

 private:
  struct Outgoing {
    PeerKnowledge::Report report;
    MpiRequest request;
  };
  void send(const PeerKnowledge::Report& report, int peer, int tag);

  MPI_Comm comm_;
  PeerKnowledge knowledge_;
  std::deque<Outgoing> outgoing_;  // a deque keeps addresses stable: MPI reads the values until they are sent
};

}  // namespace babelring
