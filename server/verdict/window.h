#pragma once

#include <cstdint>
#include <vector>

#include "server/verdict/verdict.h"

namespace babelring::verdict {

/// Fewer updates than these say nothing.
inline constexpr std::size_t least_updates = 8;

/// One update of all ranks, cut into what every rank does, what the slowest takes longer, and what even the slowest
/// waits for. A rank that is late looks like a slow network on all others: they wait in the collective. What the rank
/// that arrived last still waits there is the network's, the rest is its lateness. The parts add up to the step of that
/// last rank.
struct UpdateSplit {
  std::int64_t update = 0;
  double data_ms = 0, forward_ms = 0, backward_ms = 0, optimizer_ms = 0, other_ms = 0;  // median of the other ranks
  double network_ms = 0;    // exposed communication of the rank that arrived last
  double straggler_ms = 0;  // how much longer that rank took than the median of the others
  std::size_t last_rank = 0;
  bool last_was_data = false;  // its lateness came from waiting for data rather than from computing
  double communication_ms = 0;
  bool skipped = false;

  double compute_ms() const { return forward_ms + backward_ms + optimizer_ms; }
  double total_ms() const { return data_ms + compute_ms() + other_ms + network_ms + straggler_ms; }
};

/// The updates that the verdict looks at: reported by every rank that reports at all, without the first ones of the
/// attempt (memory is mapped, caches are cold) and those that follow a pause (ranks wait there for the one that saved),
/// at most the last 128.
std::vector<UpdateSplit> split_window(const Input& input);

/// What a kind of pause costs, spread over the updates between two of them.
struct PauseCost {
  double ms_per_update = 0;
  double ms_each = 0;          // mean
  double updates_between = 0;  // mean
  std::size_t count = 0;
};
/// Time in which training really stood still: what the pause's record says, but no more than the gap between the steps
/// around it (a checkpoint may be written while training goes on), and for a checkpoint also what its preparation took
/// of that gap.
PauseCost pause_cost(const Input& input, Pause::Kind kind);

/// Median time between the end of a step and the beginning of the next on the first rank, where nothing is known to
/// happen: records, digests of the weights. 0 where it cannot be told.
double between_steps_ms(const Input& input);

/// The middle value; the mean of the two middle ones. 0 of nothing.
double median(std::vector<double> values);

}  // namespace babelring::verdict
