#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <list>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/json.h"
#include "server/store/attempts.h"

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
  std::int64_t memory_limit_bytes = 0, memory_left_bytes = 0;  // of its control group; 0: an older worker
  std::int64_t network_rx_bytes = 0, network_tx_bytes = 0;     // since the interfaces came up
  std::int64_t processors = 0;
  double load = 0;                                           // 1-minute load average
  std::optional<double> temperature_celsius = std::nullopt;  // absent: no sensor
  // Arrival at this process; absent: the time of Heartbeats::record().
  std::optional<SteadyClock::time_point> arrived = std::nullopt;
};

/// A heartbeat with its arrival time and derived network rates.
struct ReceivedHeartbeat {
  Beat beat;
  SteadyClock::time_point at;
  double rx_bytes_per_s = 0, tx_bytes_per_s = 0;  // since the previous heartbeat
};

/// A rank and its host at one heartbeat. Floats suffice to draw them: there may be a million samples.
struct Sample {
  SteadyClock::time_point at;
  std::uint32_t update = 0;
  float resident_bytes = 0;     // of the rank's process
  float memory_left_bytes = 0;  // that the host, or the control group if that is less, can still give
  float load = 0;
  float temperature_celsius = 0;  // NaN: no sensor
};

/// The last minute of an attempt: the samples of its ranks before it ended or fell silent.
struct BlackBox {
  struct Rank {
    std::int64_t rank = 0;
    Beat newest;
    std::vector<Sample> samples;  // oldest first, at least one
  };
  static constexpr std::size_t max_samples = 60;  // of a rank: a minute, as ranks report once a second
  static constexpr std::size_t max_ranks = 16;    // those that fell silent first
  std::string run;
  std::int64_t attempt = 0;
  SteadyClock::time_point until;  // newest sample of any rank
  std::vector<Rank> ranks;        // ordered by rank
  std::size_t left_out = 0;       // ranks beyond max_ranks
};

/// The box as it is stored, at most about 40 kB: `hosts` with `memory_limit_bytes`, `processors` and the series
/// `memory_left_bytes`, `load` and `temperature_celsius` (absent: no sensor), of the host's rank that had least memory
/// left; `ranks` with `update` and the series `resident_bytes`. Each has its own `seconds` before `until`, at most 0.
json::object to_json(const BlackBox& box);

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
  static constexpr std::size_t max_sampled_ranks = 256;   // per run; the first that report

  /// Stores a heartbeat. At a limit, evicts the longest-silent ranks of the same run, or the longest-silent runs of the
  /// same token. True if take_ended() has something new to wait for.
  bool record(const std::string& run, const Beat& beat, const Source& source);
  bool record(const std::string& run, const Beat& beat) { return record(run, beat, {}); }
  /// The newest heartbeats of one attempt, ordered by rank.
  std::vector<ReceivedHeartbeat> of(const std::string& run, std::int64_t attempt) const;
  /// Hosts heard from within the last day, ordered by name.
  std::vector<Node> nodes() const;
  void forget(const std::string& run);

  /// The last minute of one attempt; nothing if none of its ranks has reported here.
  std::optional<BlackBox> black_box(const std::string& run, std::int64_t attempt) const;
  /// The box as the store has it.
  store::BlackBoxRow row_of(const BlackBox& box) const;
  /// The boxes of attempts that seem to be over: all their ranks have been silent for `silence`, or a newer attempt has
  /// reported. Each is returned once, and again if its ranks have reported meanwhile.
  std::vector<BlackBox> take_ended(std::chrono::seconds silence);
  /// Whether a later take_ended() may return a box.
  bool awaits_ends() const;

  /// Number of runs in memory.
  std::size_t runs() const;

  double age_s(const ReceivedHeartbeat& beat) const { return std::chrono::duration<double>(now_() - beat.at).count(); }

 private:
  struct Rank {
    ReceivedHeartbeat heard;
    std::vector<Sample> samples;  // of the run's newest attempt
    std::list<std::int64_t>::iterator in_run;
  };
  struct Run {
    std::string token;  // of the run's first heartbeat
    SteadyClock::time_point at;
    std::int64_t attempt = 0;       // the newest
    bool taken = false;             // take_ended() has returned its box, and no rank has reported since
    std::size_t sampled_ranks = 0;  // at most max_sampled_ranks have samples
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
  Rank& rank_of(Run& run, std::int64_t number);
  void note_attempt(const std::string& name, Run& run, std::int64_t attempt);
  static void sample(Run& run, Rank& rank);
  static BlackBox box_of(const std::string& name, const Run& run);
  void make_room(const std::string& name, Run& run, std::size_t ranks);
  void drop(const std::string& name);
  /// Drops a few runs that have been silent for a day.
  void forget_silent(SteadyClock::time_point now);

  const Now now_;
  mutable std::mutex mutex_;
  std::map<std::string, Run> runs_;
  std::map<std::string, Token> tokens_;
  std::list<std::string> oldest_first_;  // runs
  std::deque<BlackBox> replaced_;        // of attempts that a newer one followed
};

}  // namespace babelring::launch
