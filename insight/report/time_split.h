#pragma once

#include "insight/report/run_history.h"

namespace babelring::insight {

/// Where the wall-clock time of a run went, in seconds. The parts add up to `wall`.
struct TimeSplit {
  double wall = 0;         // from the first record to the last
  double training = 0;     // within updates
  double validation = 0;   // recorded durations, as far as training stood still
  double checkpoints = 0;  // training stood still for them
  double waiting = 0;      // at the start, between updates without another reason, at the end
  double lost = 0;         // between attempts, and updates that were done again
  std::int64_t attempts = 1, rewinds = 0;
  bool estimated = false;  // not all updates were read
};

/// From rank 0's records. Requires at least one step.
TimeSplit split_time(const RunHistory& history);

}  // namespace babelring::insight
