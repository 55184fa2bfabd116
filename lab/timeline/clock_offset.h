#pragma once

#include <optional>
#include <span>

#include "base/clock.h"
#include "nmt/comm/communicator.h"

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

}  // namespace babelring
