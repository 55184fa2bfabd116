#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "base/file_descriptor.h"
#include "worker/rank_identity.h"
#include "worker/record_sender.h"

namespace babelring {

/// Takes heartbeats of the ranks of a host to the rank that sends their records, by datagrams between local sockets
/// whose names end with their processes. Ranks in different network namespaces (containers) do not reach each other.
/// Not thread-safe.
class HeartbeatRelay {
 public:
  /// `sender`: RecordSender of this rank. Without a socket, nothing is received or passed on.
  HeartbeatRelay(const RankIdentity& identity, const RecordSender& sender);

  /// Passes this rank's heartbeat to the rank that sends its records. False if there is none, if it cannot be reached,
  /// or if it is behind with receiving.
  bool pass_on(const std::string& heartbeat);
  /// Whether this rank must call receive() more often than `receive_interval`: a socket holds as few as ten datagrams.
  bool receives() const { return socket_ && !sender_.served.empty(); }
  static constexpr std::chrono::milliseconds receive_interval{50};
  /// Receives what has arrived.
  void receive();
  /// The newest heartbeat of each served rank, if it has passed one on since the last call.
  std::vector<std::string> take();

 private:
  const RankIdentity identity_;
  const RecordSender sender_;
  FileDescriptor socket_;
  std::map<std::int64_t, std::string> newest_;  // by rank
};

}  // namespace babelring
