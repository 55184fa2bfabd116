#pragma once

#include <cstdint>
#include <limits>
#include <string>
#include <vector>

/// The data from which a run is judged.
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
  double target_tokens = 0;  // of this rank in the update
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

/// The size of the buckets in which gradients are summed, and where it is known from.
struct BucketSize {
  enum class Source {
    unknown,
    configured,  // communication.bucket_mb is a number
    chosen,      // it is `auto`, and the worker reported its choice
    assumed,     // it is `auto`, and the worker did not: it is what workers on CPUs choose if they do not measure
  };
  double mb = 0;  // 0: unknown
  Source source = Source::unknown;
};

inline constexpr double host_bucket_mb = 4;  // what communication.bucket_mb: auto is on CPUs if it is not measured

/// The bucket size of a run with this configuration. `reported_mb`: LifecycleRecord::bucket_mb of `started`.
BucketSize bucket_size(const std::string& config, double reported_mb, bool on_gpus);

/// Who keeps the optimizer's state of a run with this configuration: "replicated", "sharded", or "" if unknown.
/// `reported`: LifecycleRecord::optimizer of `started`, which older workers leave empty.
std::string optimizer_placement(const std::string& config, const std::string& reported);

/// Facts about the run from its configuration and lifecycle records. Zero or empty: unknown.
struct Facts {
  std::int64_t world_size = 0, parameters = 0, attempt = 1;
  std::int64_t first_update = 0;  // of the current attempt
  std::string all_reduce;         // communication.all_reduce
  std::string gradient_wire;      // f32, bf16 or int8
  std::string precision;          // f32 or bf16
  std::string optimizer;          // optimizer_placement()
  bool on_gpus = false;
  BucketSize bucket = {};
};

/// The input of judge().
struct Input {
  Facts facts;
  std::vector<RankSteps> ranks;
  std::vector<Pause> pauses;    // the newest of each kind, by rising update
  std::vector<HostLoad> hosts;  // hosts with a known load
};

/// The most contended host: more threads are ready than it has processors, and most are not the run's. Null if none.
const HostLoad* contended_host(const std::vector<HostLoad>& hosts);

}  // namespace babelring::verdict
