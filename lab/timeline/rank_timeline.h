#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "base/records/records.h"
#include "base/span_log.h"
#include "nmt/comm/communicator.h"
#include "nmt/ops/op_fields.h"

namespace babelring {

/// How far rank 0's clock is ahead of this rank's at one moment.
struct ClockOffset {
  SteadyClock::time_point at;  // the moment, by this rank's clock
  Nanoseconds ahead{0};
  Nanoseconds error{0};  // bound: half of the round trip
};

/// The offset by the fastest of the round trips, whose answer is taken to lie in its middle (Cristian 1989). None
/// without round trips.
std::optional<ClockOffset> clock_offset(std::span<const RoundTrip> trips);

/// The same, from 64 round trips to rank 0; on rank 0 an offset of 0. None if the communicator cannot time round trips.
/// Collective.
std::optional<ClockOffset> measure_clock_offset(Communicator& communicator);

/// Converts times of this rank's clock to rank 0's. Between the two measurements the drift is taken to be constant.
class ClockMap {
 public:
  /// `before` is older than `after`.
  ClockMap(const ClockOffset& before, const ClockOffset& after) : before_(before), after_(after) {}

  SteadyClock::time_point on_rank_0(SteadyClock::time_point own) const;
  /// Bound on the error of times between the two measurements.
  Nanoseconds error() const;
  /// How much faster rank 0's clock runs, in parts per million.
  double drift_ppm() const;
  /// How far rank 0's clock is ahead at `own`.
  Nanoseconds ahead(SteadyClock::time_point own) const;

 private:
  ClockOffset before_, after_;
};

/// A field of an op with its shape.
struct NamedShape {
  std::string_view name;
  Shape shape;
};

/// One run of an op.
struct TimedOp {
  std::string_view name;
  std::string layer;  // see OpPlace::layer(); empty: none
  OpCost cost;
  SteadyClock::time_point begin, end;
  std::size_t first_shape = 0, shapes = 0;  // in RankTimeline::shapes
};

/// A range of ops: a layer or a part of the update.
struct TimedRange {
  std::string name;
  SteadyClock::time_point begin, end;
};

/// One update of a rank: when it ran, and its step record.
struct TracedUpdate {
  SteadyClock::time_point begin, end;
  StepRecord record;
  std::int64_t bytes_sent = 0;  // by this rank from the start of the trace to the update's end
};

/// Activities of one rank during the updates of a trace, by its own clock.
struct RankTimeline {
  int rank = 0;
  std::string host;
  bool device = false;                // ops ran on a device, else on the main thread
  std::vector<TracedUpdate> updates;  // in order
  std::vector<TimedOp> ops;           // in order; empty if ops were not recorded
  std::vector<NamedShape> shapes;
  std::vector<TimedRange> ranges;  // a range comes after the ranges inside of it
  std::vector<LoggedSpan> spans;   // of the threads main, data and reporter
  std::vector<CommSpan> collectives;
};

}  // namespace babelring
