#pragma once

#include <optional>
#include <string>

#include "lab/probe/probe_run.h"

namespace babelring {

/// Runs of the same updates, compared with the first run.
struct RepeatResult {
  int runs = 0;
  int different = 0;                 // runs with a tensor that differs from the first run's
  std::optional<ProbeRecord> first;  // the earliest tensor that ever differed
  int first_different = 0;           // runs in which that tensor differed
};

/// Runs the plan's updates `runs` times in this process, at least 2. With `busy`, threads that compute nothing keep
/// every processor busy meanwhile. Throws as save_probe().
RepeatResult repeat_probe(const ProbePlan& plan, Backend& backend, int runs, bool busy);

}  // namespace babelring
