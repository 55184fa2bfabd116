#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "base/files.h"
#include "base/result.h"
#include "nmt/comm/communicator.h"
#include "worker/spool.h"

namespace babelring {

/// Takes heartbeats of the ranks of a host to the rank that sends their records, by datagrams between local sockets
/// whose names end with their processes. Names are random, and a rank is connected to the socket itself as long as that
/// exists: another user of the machine can neither take the name before nor receive what is passed on. Ranks in
/// different network namespaces (containers) do not reach each other. Not thread-safe.
class HeartbeatRelay {
 public:
  /// Nothing is received or passed on.
  HeartbeatRelay() = default;
  /// Receives from the ranks `served`. The error says why there is no socket.
  static Result<HeartbeatRelay> receiver(std::vector<std::int64_t> served);
  /// Passes heartbeats on to the relay of this name; if it cannot be reached, nothing is passed on.
  static HeartbeatRelay to(const std::string& name);

  /// The name of a receiver; empty for other relays.
  const std::string& name() const { return name_; }

  /// Passes this rank's heartbeat to the rank that sends its records. False if there is none, if it cannot be reached,
  /// or if it is behind with receiving.
  bool pass_on(const std::string& heartbeat);
  /// Whether this rank must call receive() more often than `receive_interval`: a socket holds as few as ten datagrams.
  bool receives() const { return socket_ && !served_.empty(); }
  static constexpr std::chrono::milliseconds receive_interval{50};
  /// Receives what has arrived.
  void receive();
  /// The newest heartbeat of each served rank, if it has passed one on since the last call.
  std::vector<std::string> take();

 private:
  std::string name_;
  std::vector<std::int64_t> served_;
  FileDescriptor socket_;
  std::map<std::int64_t, std::string> newest_;  // by rank
};

/// The relay of this rank. If a rank that sends for others has no socket, it logs a warning, and each rank sends its
/// own. `sender`: of this rank. Collective: one all_gather and a barrier.
HeartbeatRelay make_heartbeat_relay(Communicator& communicator, const RecordSender& sender);

}  // namespace babelring
