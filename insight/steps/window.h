#pragma once

#include <cstdint>
#include <vector>

#include "insight/steps/input.h"

namespace babelring::verdict {

/// Min number of updates for a verdict.
inline constexpr std::size_t min_updates = 8;

/// One update of all ranks, split into work, lateness of the slowest rank, and network. To the other ranks a late rank
/// looks like a slow network, because they wait for it in the collective. The time that the last rank itself waits
/// there is network time; the rest of the others' wait is the last rank's lateness. The parts add up to the step time
/// of the last rank.
struct UpdateSplit {
  std::int64_t update = 0;
  double data_ms = 0, forward_ms = 0, backward_ms = 0, optimizer_ms = 0, other_ms = 0;  // medians of the other ranks
  double network_ms = 0;       // exposed communication of the rank that arrived last
  double straggler_ms = 0;     // extra time of that rank over the median of the others
  std::size_t last_rank = 0;   // index into Input::ranks
  bool last_was_data = false;  // that rank was late because it waited for data
  double communication_ms = 0;
  bool skipped = false;

  double compute_ms() const { return forward_ms + backward_ms + optimizer_ms; }
  double total_ms() const { return data_ms + compute_ms() + other_ms + network_ms + straggler_ms; }
};

/// How many of `ranks` ranks must have reported an update for it to be judged: 99 %, so that one silent rank of
/// hundreds does not hold the verdict back.
constexpr std::size_t enough_ranks(std::size_t ranks) {
  return ranks - ranks / 100;
}

/// The updates that the verdict rests on: up to 128 of the newest that enough ranks reported. Leaves out the first
/// updates of the attempt (memory is being mapped, caches are cold) and, if enough others remain, updates after a pause
/// (ranks wait there for the rank that saved).
std::vector<UpdateSplit> split_window(const Input& input);

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

/// The median; the mean of the two middle values if their number is even. 0 if `values` is empty.
double median(std::vector<double> values);

}  // namespace babelring::verdict
