#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <vector>

#include "base/clock.h"
#include "nmt/comm/mpi_handles.h"

namespace babelring {

/// Tells a peer that is stopped or lost from one that is merely late. While a collective waits, a rank asks every peer;
/// the peer's communication thread answers, whatever its main thread does, with the number of collectives the main
/// thread has entered. Used by the communication thread alone; nothing blocks. Throws CommError.
class RollCall {
 public:
  RollCall(const MpiChannel& channel, int rank, int ranks);

  /// Takes in questions and answers; answers that this rank has entered `entered` collectives.
  void serve(std::int64_t entered);
  /// Asks every peer whose last answer is there; unanswered ones go on being waited for.
  void ask();

  struct Peer {
    std::optional<SteadyClock::time_point> unanswered_since;
    std::optional<std::int64_t> entered;  // collectives, as of its last answer
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
  std::deque<Outgoing> outgoing_;  // stable addresses: MPI reads them until sent
};

}  // namespace babelring
