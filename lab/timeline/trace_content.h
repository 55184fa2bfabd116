#pragma once

#include <cstdint>
#include <span>

#include "base/json.h"
#include "lab/timeline/rank_events.h"

namespace babelring {

/// A finished trace.
struct TraceFacts {
  std::int64_t first_update = 0, updates = 0;
  bool ops = true;           // ops were recorded
  std::int64_t request = 0;  // number of the TraceOrder; 0: the configuration asked for the trace
};

/// The content of a trace's artifact record: the facts, and how each rank spent the updates, unless there are more than
/// 1,000 ranks. Format: docs/formats.md.
json::object trace_content(const TraceFacts& facts, std::span<const RankEvents> ranks);

}  // namespace babelring
