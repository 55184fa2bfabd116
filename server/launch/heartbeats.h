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

/// A rank's GPU, as its driver tells; absent: what it does not tell.
struct BeatGpu {
  std::optional<std::int64_t> utilization_percent, memory_used_bytes, clock_mhz;
  std::optional<double> power_w, power_limit_w;
};

/// A rank's sign of life, as it says it.
struct Beat {
  std::int64_t attempt = 0, rank = 0, pid = 0, update = 0;
  std::string host;
  double since_update_s = 0;         // since the last update was done, or since the rank started
  std::int64_t checkpoint_done = 0;  // the newest wish for a checkpoint that was carried out
  std::int64_t resident_bytes = 0;   // of the process
  std::optional<BeatGpu> gpu;        // absent: none, or nothing is known of it
  // Of the host:
  std::int64_t memory_bytes = 0, memory_available_bytes = 0, disk_free_bytes = 0;
  std::int64_t network_rx_bytes = 0, network_tx_bytes = 0;  // since its interfaces came up
  std::int64_t processors = 0;
  double load = 0;  // the kernel's average over a minute
  // When it reached this process; absent: when it is noted.
  std::optional<SteadyClock::time_point> arrived = std::nullopt;
};

struct HeardBeat {
  Beat beat;
  SteadyClock::time_point at;
  double rx_bytes_per_s = 0, tx_bytes_per_s = 0;  // between this one and the one before
};

/// A host as its newest heartbeat shows it.
struct Node {
  struct Rank {
    std::string run;
    std::int64_t rank = 0;
    std::optional<BeatGpu> gpu;
  };
  std::string host;
  HeardBeat newest;
  std::vector<Rank> ranks;  // of the last minute
};

/// The newest heartbeat of every rank, in memory only: after a restart ranks report again within seconds. Bounded for
/// each run and for each token, so that what one reporter invents displaces nothing but its own. Thread-safe.
class Heartbeats {
 public:
  using Now = std::function<SteadyClock::time_point()>;
  explicit Heartbeats(Now now = [] { return SteadyClock::now(); }) : now_(std::move(now)) {}

  /// Who sent a heartbeat.
  struct Source {
    std::string token = {};  // its id; empty: without one
    std::int64_t ranks = 0;  // that the run has; 0: not known
  };
  static constexpr std::size_t max_ranks = 4096;          // of a run whose number of ranks is not known
  static constexpr std::size_t max_token_ranks = 16'384;  // of all runs of a token

  /// Beyond a bound, the ranks of the same run, or the runs of the same token, that are silent the longest are
  /// forgotten.
  void note(const std::string& run, const Beat& beat, const Source& source);
  void note(const std::string& run, const Beat& beat) { note(run, beat, {}); }
  /// Of one attempt, by rank.
  std::vector<HeardBeat> of(const std::string& run, std::int64_t attempt) const;
  /// Hosts from which something came within the last day, by name.
  std::vector<Node> nodes() const;
  void forget(const std::string& run);
  /// How many runs are known.
  std::size_t runs() const;

  double age_s(const HeardBeat& beat) const { return std::chrono::duration<double>(now_() - beat.at).count(); }

 private:
  struct Rank {
    HeardBeat heard;
    std::list<std::int64_t>::iterator in_run;
  };
  struct Run {
    std::string token;  // of its first heartbeat
    SteadyClock::time_point at;
    std::map<std::int64_t, Rank> ranks;
    std::list<std::int64_t> oldest_first;  // ranks
    std::list<std::string>::iterator in_all, in_token;
  };
  struct Token {
    std::size_t ranks = 0;                // of all its runs
    std::list<std::string> oldest_first;  // runs
  };

  // All with mutex_ held. The first two make what is asked for the newest.
  Run& run_named(const std::string& name, const std::string& token);
  HeardBeat& rank_of(Run& run, std::int64_t number);
  void make_room(const std::string& name, Run& run, std::size_t ranks);
  void drop(const std::string& name);
  /// A few of the runs that have been silent for a day.
  void forget_silent(SteadyClock::time_point now);

  const Now now_;
  mutable std::mutex mutex_;
  std::map<std::string, Run> runs_;
  std::map<std::string, Token> tokens_;
  std::list<std::string> oldest_first_;  // runs
};

}  // namespace babelring::launch
