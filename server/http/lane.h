#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace babelring::http {

/// The queue and thread pool that serve a route. Lanes share no threads, so requests of one lane never wait for those
/// of another.
enum class Lane : std::uint8_t {
  heartbeat,  // heartbeats of ranks
  ingest,     // records of ranks
  health,     // readiness checks
  ordinary,   // requests that read or change a bounded number of rows
  query,      // series and other long reads
  process,    // requests that start a process and wait for it
};

inline constexpr std::array<Lane, 6> all_lanes = {Lane::heartbeat, Lane::ingest, Lane::health,
                                                  Lane::ordinary,  Lane::query,  Lane::process};

/// The name used in metrics: heartbeat, ingest, …
std::string_view name_of(Lane lane);

/// Resource limits of a lane.
struct LaneLimits {
  std::size_t threads = 1;
  std::size_t max_waiting = 1;            // queued requests
  std::size_t max_waiting_per_owner = 1;  // queued requests per token, or per address without a token
  std::size_t max_running_per_owner = 1;  // below `threads`, no owner can occupy the whole lane
  int nice = 0;                           // added to the nice value of its threads
};

/// The limits of every lane. Each connection has at most one request in flight, so a queue as long as the number of
/// connections never refuses a request.
using LaneTable = std::array<LaneLimits, all_lanes.size()>;
LaneTable default_lanes();

}  // namespace babelring::http
