#pragma once

#include <cstdint>
#include <limits>
#include <string>
#include <string_view>
#include <vector>

#include "server/verdict/health.h"

/// What holds a run back, from its step records alone: pure functions over plain structs.
namespace babelring::verdict {

inline constexpr double not_known = std::numeric_limits<double>::quiet_NaN();

/// One update as one rank saw it: members of the step record (docs/formats.md) with their units.
struct Step {
  std::int64_t update = 0, time_ms = 0;
  double step_ms = 0;
  double data_ms = 0, forward_ms = 0, backward_ms = 0, exposed_communication_ms = 0, optimizer_ms = 0, other_ms = 0;
  double communication_ms = 0, communication_bytes = 0, network_tx_bytes = 0;
  double network_link_bytes_per_second = 0;  // one way, of the busiest interface; 0: not known
  double busy_fraction = not_known;
  bool skipped = false;
};

struct RankSteps {
  std::int64_t rank = 0;
  std::string host;
  std::vector<Step> steps;  // of the current attempt, by rising update
};

/// Training stood still after an update: an evaluation or the writing of a checkpoint.
struct Pause {
  enum class Kind { evaluation, checkpoint };
  Kind kind = Kind::evaluation;
  std::int64_t update = 0;
  double seconds = 0;         // as its record says, by a monotonic clock
  double gap_ms = not_known;  // on the first rank, from the end of this update to the beginning of the next
};

/// A host of the run, as the newest heartbeat from it tells.
struct HostLoad {
  std::string host;
  double load = 0;  // the kernel's average over a minute: threads that run or want to
  std::int64_t processors = 0;
  double own_threads = 0;  // of the run's ranks there

  double others() const { return load - own_threads; }
};

inline constexpr double host_bucket_mb = 4;  // what communication.bucket_mb: auto is where no GPU computes

/// What is known of the run besides its steps. Zero or empty: not known.
struct Facts {
  std::int64_t world_size = 0, parameters = 0, attempt = 1;
  std::int64_t first_update = 0;  // of the current attempt
  std::string gradient_wire;      // f32 or bf16; empty: not known
  double bucket_mb = 0;
};

struct Input {
  Facts facts;
  std::vector<RankSteps> ranks;
  std::vector<Pause> pauses;    // the newest of each kind, by rising update
  std::vector<HostLoad> hosts;  // those that are known
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
  host_contended,  // other programs take the processors
};
std::string_view to_string(Kind kind);

/// One number that the verdict rests on.
struct Evidence {
  std::string key;
  double value = 0;
  std::string unit;
  double share = not_known;  // of an update's time, pauses spread over updates; NaN where it is no part of that
};

struct Verdict {
  Kind kind = Kind::unknown;
  Level level = Level::unknown;  // good only where the threads that compute are busy
  std::string sentence, advice;
  double confidence = 0;  // 0 to 1: from the number of updates, how many of them agree, and the ranks that were seen
  std::int64_t first_update = 0, last_update = 0;  // of the window; 0 where there is none
  std::vector<Evidence> evidence;
};

/// Judges the run. Never throws on what the numbers say: what does not suffice is `unknown`, saying what is missing.
Verdict judge(const Input& input);

/// The verdict as a part of the run's health, about its speed or its hosts.
HealthPart health_part(const Verdict& verdict);
/// How busy the run's hosts are with other programs. There must be at least one host.
HealthPart judge_hosts(const std::vector<HostLoad>& hosts);

/// The host whose processors other programs take the most, if they take most of some.
const HostLoad* contended_host(const std::vector<HostLoad>& hosts);

}  // namespace babelring::verdict
