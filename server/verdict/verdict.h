#pragma once

#include <cstdint>
#include <limits>
#include <string>
#include <string_view>
#include <vector>

#include "server/verdict/health.h"

/// Finds a run's bottleneck from its records: pure functions over plain structs.
namespace babelring::verdict {

inline constexpr double unknown_value = std::numeric_limits<double>::quiet_NaN();

/// One update as one rank reported it. Members and units are those of the step record (docs/formats.md).
struct Step {
  std::int64_t update = 0, time_ms = 0;
  double step_ms = 0;
  double data_ms = 0, forward_ms = 0, backward_ms = 0, exposed_communication_ms = 0, optimizer_ms = 0, other_ms = 0;
  double communication_ms = 0, communication_bytes = 0, network_tx_bytes = 0;
  double network_link_bytes_per_second = 0;  // one-way rate of the busiest interface; 0: unknown
  double busy_fraction = unknown_value;
  bool skipped = false;
};

/// The steps of one rank.
struct RankSteps {
  std::int64_t rank = 0;
  std::string host;
  std::vector<Step> steps;  // of the current attempt, by rising update
};

/// A pause of training after an update, for an evaluation or a checkpoint.
struct Pause {
  enum class Kind { evaluation, checkpoint };
  Kind kind = Kind::evaluation;
  std::int64_t update = 0;
  double seconds = 0;             // duration by a monotonic clock, from its record
  double gap_ms = unknown_value;  // on the first rank, from the end of this update to the start of the next
};

/// A host of the run, from its newest heartbeat.
struct HostLoad {
  std::string host;
  double load = 0;  // one-minute load average: threads that run or are ready to run
  std::int64_t processors = 0;
  double own_threads = 0;  // threads of the run's ranks on this host

  /// Load of other programs.
  double others() const { return load - own_threads; }
};

inline constexpr double host_bucket_mb = 4;  // value of communication.bucket_mb: auto on CPUs

/// Facts about the run from its configuration and lifecycle records. Zero or empty: unknown.
struct Facts {
  std::int64_t world_size = 0, parameters = 0, attempt = 1;
  std::int64_t first_update = 0;  // of the current attempt
  std::string gradient_wire;      // f32 or bf16
  double bucket_mb = 0;
};

/// The input of judge().
struct Input {
  Facts facts;
  std::vector<RankSteps> ranks;
  std::vector<Pause> pauses;    // the newest of each kind, by rising update
  std::vector<HostLoad> hosts;  // hosts with a known load
};

enum class Kind {
  unknown,
  healthy,
  compute_bound,
  network_bound,
  data_bound,
  straggler_bound,
  checkpoint_bound,
  evaluation_bound,
  host_contended,  // other programs take the host's processors
};
std::string_view to_string(Kind kind);

/// A number that supports the verdict.
struct Evidence {
  std::string key;
  double value = 0;
  std::string unit;
  double share = unknown_value;  // fraction of an update's time, including its share of pauses; NaN if not a part of it
};

/// The bottleneck of a run.
struct Verdict {
  Kind kind = Kind::unknown;
  Level level = Level::unknown;  // good only if the run's compute threads are busy
  std::string sentence, advice;
  double confidence = 0;  // 0 to 1: from the number of updates, their agreement, the ranks seen and the margin
  std::int64_t first_update = 0, last_update = 0;  // of the window; 0 if it is empty
  std::vector<Evidence> evidence;
};

/// Judges the run. Accepts any numbers without throwing; returns Kind::unknown and says why if the data do not suffice.
Verdict judge(const Input& input);

/// The verdict as a part of the run's health. Topic::hosts for host_contended, otherwise Topic::speed.
HealthPart health_part(const Verdict& verdict);
/// The part of the health about other load on the run's hosts. `hosts` must not be empty.
HealthPart judge_hosts(const std::vector<HostLoad>& hosts);

/// The most contended host: more threads are ready than it has processors, and most are not the run's. Null if none.
const HostLoad* contended_host(const std::vector<HostLoad>& hosts);

}  // namespace babelring::verdict
