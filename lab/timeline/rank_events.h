#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/gzip.h"
#include "base/result.h"
#include "lab/timeline/clock_offset.h"
#include "lab/timeline/rank_shares.h"
#include "lab/timeline/rank_timeline.h"

namespace babelring {

/// A collective of one rank, in us of the trace.
struct TracedCollective {
  std::int64_t number = 0, bytes = 0;
  double asked_us = 0, begun_us = 0, done_us = 0;
  int thread = 0;
};

/// How a rank's clock relates to rank 0's.
struct TracedClock {
  double ahead_us = 0;  // rank 0's clock less this rank's, at the start of the trace
  double error_us = 0;  // bound
  double drift_ppm = 0;
};

/// One rank's part of a trace file.
struct RankEvents {
  int rank = 0;
  std::string host;
  bool device = false;
  std::optional<TracedClock> clock;  // none: its times cannot be compared with those of other ranks
  RankShares shares;                 // without rank, host and overlap
  std::vector<TracedCollective> collectives;
  GzipPart events;  // of TraceText

  /// A text for Communicator::all_gather(), and its inverse.
  std::string packed() const;
  static Result<RankEvents> unpack(const std::string& text);
};

/// Converts a rank's records to events. `origin` is time 0 of the trace, by rank 0's clock. Without `clock` there
/// are no events.
RankEvents events_of(const RankTimeline& timeline, const std::optional<ClockMap>& clock,
                     SteadyClock::time_point origin);

}  // namespace babelring
