#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/gzip.h"
#include "base/result.h"
#include "lab/timeline/rank_timeline.h"

namespace babelring {

/// How one rank spent the traced updates. The parts but `hidden_ms` add up to the total.
struct RankSplit {
  int rank = 0;
  std::string host;
  double total_ms = 0;
  double compute_ms = 0;  // forward, backward and optimizer, with the collectives that the optimizer waits for
  double exposed_ms = 0;  // communication that nothing else ran beside
  double data_ms = 0;     // waiting for batches
  double other_ms = 0;
  double hidden_ms = 0;           // all-reduces in progress outside of the exposed communication
  std::optional<double> overlap;  // hidden part of the time with an all-reduce in progress, 0 to 1; none without one
};

/// A set of times in us.
class TimeSet {
 public:
  void add(double begin, double end) {
    if (end > begin) parts_.emplace_back(begin, end);
  }
  /// Length in ms; overlapping parts count once.
  double ms() const;
  /// The times in both sets.
  TimeSet within(const TimeSet& other) const;

 private:
  std::vector<std::pair<double, double>> joined() const;
  std::vector<std::pair<double, double>> parts_;
};

/// Adds up one rank's events to the parts of its time.
class SplitCounter {
 public:
  /// `device`: ops ran on a device, beside the main thread, and the device's ranges tell their times.
  explicit SplitCounter(bool device) : device_(device) {}

  /// An event with the category and name that it has in a trace file. `bytes`: of a collective.
  void add(std::string_view category, std::string_view name, double begin_us, double end_us, std::int64_t bytes = 0);
  /// Without rank and host.
  RankSplit split() const;

 private:
  bool device_;
  TimeSet updates_, data_, exposed_, compute_, all_reduces_;
};

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
  RankSplit split;                   // without rank, host and overlap
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
