#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace babelring::http {

/// Which queue and threads serve a route. Lanes share no thread, so that requests of one never wait for those of
/// another.
enum class Lane : std::uint8_t {
  heartbeat,  // signs of life of ranks
  ingest,     // records of ranks
  health,     // whether the server is ready
  ordinary,   // all that reads or changes a bounded number of rows
  query,      // what reads series, or else may take long
  process,    // what starts a process and waits for it
};

inline constexpr std::array<Lane, 6> all_lanes = {Lane::heartbeat, Lane::ingest, Lane::health,
                                                  Lane::ordinary,  Lane::query,  Lane::process};

/// As in metrics: heartbeat, ingest, …
std::string_view name_of(Lane lane);

/// What a lane may use.
struct LaneLimits {
  std::size_t threads = 1;
  std::size_t max_waiting = 1;            // requests in its queue
  std::size_t max_waiting_per_owner = 1;  // of one token, or of one address without a token
  std::size_t max_running_per_owner = 1;  // likewise; less than `threads`: nobody can hold the whole lane
  int nice = 0;                           // by how many steps the priority of its threads is lower than others'
};

/// The limits of every lane. A connection waits for one request at a time, so that queues as long as there are
/// connections refuse nobody.
using LaneTable = std::array<LaneLimits, all_lanes.size()>;
LaneTable default_lanes();

}  // namespace babelring::http
