#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <list>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "base/clock.h"

namespace babelring::launch {

/// State of a rank's GPU as reported by the driver. Absent members are unavailable.
struct BeatGpu {
  std::optional<std::int64_t> utilization_percent, memory_used_bytes, clock_mhz;
  std::optional<double> power_w, power_limit_w;
};

/// A rank's heartbeat as reported.
struct Beat {
  std::int64_t attempt = 0, rank = 0, pid = 0, update = 0;
  std::string host;
  double since_update_s = 0;                              // since the end of the last update, or since the rank started
  std::int64_t checkpoint_done = 0;                       // newest completed checkpoint request
  std::optional<std::int64_t> trace_done = std::nullopt;  // newest executed trace request; absent: an older worker
  std::int64_t resident_bytes = 0;                        // of the process
  std::optional<BeatGpu> gpu;                             // absent: no GPU, or unknown
  // The host's values:
  std::int64_t memory_bytes = 0, memory_available_bytes = 0, disk_free_bytes = 0;
  std::int64_t network_rx_bytes = 0, network_tx_bytes = 0;  // since the interfaces came up
  std::int64_t processors = 0;
  double load = 0;  // 1-minute load average
  // Arrival at this process; absent: the time of Heartbeats::record().
  std::optional<SteadyClock::time_point> arrived = std::nullopt;
};

/// A heartbeat with its arrival time and derived network rates.
struct ReceivedHeartbeat {
  Beat beat;
  SteadyClock::time_point at;
  double rx_bytes_per_s = 0, tx_bytes_per_s = 0;  // since the previous heartbeat
};

/// A host with its newest heartbeat.
struct Node {
  struct Rank {
    std::string run;
    std::int64_t rank = 0;
    std::optional<BeatGpu> gpu;
  };
  std::string host;
  ReceivedHeartbeat newest;
  std::vector<Rank> ranks;  // heard within the last minute
};

/// The newest heartbeat of every rank. Kept in memory only, because ranks report again within seconds of a restart.
/// Limits per run and per token ensure that forged ranks of one token evict only entries of that token. Thread-safe.
class Heartbeats {
 public:
  using Now = std::function<SteadyClock::time_point()>;
  explicit Heartbeats(Now now = [] { return SteadyClock::now(); }) : now_(std::move(now)) {}

  /// The sender of a heartbeat.
  struct Source {
    std::string token = {};  // token id; empty: no token
    std::int64_t ranks = 0;  // number of ranks of the run; 0: unknown
  };
  static constexpr std::size_t max_ranks = 4096;          // per run with an unknown number of ranks
  static constexpr std::size_t max_token_ranks = 16'384;  // per token, over all its runs

  /// Stores a heartbeat. At a limit, evicts the longest-silent ranks of the same run, or the longest-silent runs of the
  /// same token.
  void record(const std::string& run, const Beat& beat, const Source& source);
  void record(const std::string& run, const Beat& beat) { record(run, beat, {}); }
  /// The newest heartbeats of one attempt, ordered by rank.
  std::vector<ReceivedHeartbeat> of(const std::string& run, std::int64_t attempt) const;
  /// Hosts heard from within the last day, ordered by name.
  std::vector<Node> nodes() const;
  void forget(const std::string& run);
  /// Number of runs in memory.
  std::size_t runs() const;

  double age_s(const ReceivedHeartbeat& beat) const { return std::chrono::duration<double>(now_() - beat.at).count(); }

 private:
  struct Rank {
    ReceivedHeartbeat heard;
    std::list<std::int64_t>::iterator in_run;
  };
  struct Run {
    std::string token;  // of the run's first heartbeat
    SteadyClock::time_point at;
    std::map<std::int64_t, Rank> ranks;
    std::list<std::int64_t> oldest_first;  // ranks
    std::list<std::string>::iterator in_all, in_token;
  };
  struct Token {
    std::size_t ranks = 0;                // total over all its runs
    std::list<std::string> oldest_first;  // runs
  };

  // These require mutex_. run_named() and rank_of() also move the entry to the newest position.
  Run& run_named(const std::string& name, const std::string& token);
  ReceivedHeartbeat& rank_of(Run& run, std::int64_t number);
  void make_room(const std::string& name, Run& run, std::size_t ranks);
  void drop(const std::string& name);
  /// Drops a few runs that have been silent for a day.
  void forget_silent(SteadyClock::time_point now);

  const Now now_;
  mutable std::mutex mutex_;
  std::map<std::string, Run> runs_;
  std::map<std::string, Token> tokens_;
  std::list<std::string> oldest_first_;  // runs
};

}  // namespace babelring::launch
