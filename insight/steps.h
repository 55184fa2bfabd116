#pragma once

#include <cstdint>
#include <limits>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/records/step_times.h"

namespace babelring::verdict {

// The data from which a run is judged.

inline constexpr double unknown_value = std::numeric_limits<double>::quiet_NaN();

/// One update as one rank reported it. Members and units are those of the step record (docs/formats.md).
struct Step {
  std::int64_t update = 0, time_ms = 0;
  StepTimes times = {};
  double communication_bytes = 0, network_tx_bytes = 0;
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

/// Min number of updates for a verdict.
inline constexpr std::size_t min_updates = 8;

/// One update of all ranks, split into work, lateness of the slowest rank, and network. To the other ranks a late rank
/// looks like a slow network, because they wait for it in the collective. The time that the last rank itself waits
/// there is network time; the rest of the others' wait is the last rank's lateness. The parts add up to the step time
/// of the last rank.
struct UpdateSplit {
  std::int64_t update = 0;
  StepTimes times = {};        // medians of the other ranks; the step and its exposed communication of the last rank
  double straggler_ms = 0;     // extra time of the last rank over the median of the others
  std::size_t last_rank = 0;   // the rank that arrived last: index into Input::ranks
  bool last_was_data = false;  // that rank was late because it waited for data
  bool skipped = false;

  double total_ms() const { return times.sum_of_parts() + straggler_ms; }
};

/// The median; the mean of the two middle values if their number is even. 0 if `values` is empty.
double median(std::vector<double> values);

/// How many of `ranks` ranks must have reported an update for it to be judged: 99 %, so that one silent rank of
/// hundreds does not hold the verdict back.
constexpr std::size_t enough_ranks(std::size_t ranks) {
  return ranks - ranks / 100;
}

/// The updates that the verdict rests on: up to 128 of the newest that enough ranks reported. Leaves out the first
/// updates of the attempt (memory is being mapped, caches are cold) and, if enough others remain, updates after a pause
/// (ranks wait there for the rank that saved).
std::vector<UpdateSplit> split_window(const Input& input);

/// The median of `number(update)` over the window's updates.
template <class Number>
double median_over(const std::vector<UpdateSplit>& window, Number number) {
  std::vector<double> values;
  values.reserve(window.size());
  for (const UpdateSplit& update : window) values.push_back(number(update));
  return median(std::move(values));
}
/// The median of each of the times.
StepTimes median_times(const std::vector<UpdateSplit>& window);

/// The cost of one kind of pause, spread over the updates between two pauses.
struct PauseCost {
  double ms_per_update = 0;
  double ms_each = 0;          // mean
  double updates_between = 0;  // mean
  std::size_t count = 0;
};
/// The time in which training stood still: the recorded duration, limited to the gap between the steps around the pause
/// (a checkpoint may be written while training continues). The record of a checkpoint leaves out its preparation, so
/// for a checkpoint up to max(3 duration, duration + 0.5 s) of that gap counts.
PauseCost pause_cost(const Input& input, Pause::Kind kind);

/// Median time on the first rank between the end of a step and the start of the next, without pauses: writing records,
/// digests of the weights. 0 if unknown.
double between_steps_ms(const Input& input);

// Values of a configuration as text.

/// The scalar at a dotted key in a configuration written by dump_yaml(): one key per line, two spaces per level. Empty
/// if absent. Does not understand other YAML.
std::string config_scalar(std::string_view yaml, std::string_view dotted_key);

/// The number at the start of a text; 0 if there is none.
double number_in(const std::string& text);

}  // namespace babelring::verdict
