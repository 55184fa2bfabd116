#include "lab/timeline/rank_timeline.h"

#include <algorithm>
#include <cmath>

namespace babelring {
namespace {

constexpr int clock_round_trips = 64;

double nanoseconds(Nanoseconds time) {
  return static_cast<double>(time.count());
}

}  // namespace

std::optional<ClockOffset> clock_offset(std::span<const RoundTrip> trips) {
  const auto duration = [](const RoundTrip& trip) { return trip.received - trip.sent; };
  const auto fastest = std::ranges::min_element(trips, {}, duration);
  if (fastest == trips.end()) return std::nullopt;
  const SteadyClock::time_point middle = fastest->sent + duration(*fastest) / 2;
  return ClockOffset{.at = middle,
                     .ahead = fastest->answered - middle,
                     .error = (duration(*fastest) + Nanoseconds(1)) / 2};  // rounded up
}

std::optional<ClockOffset> measure_clock_offset(Communicator& communicator) {
  CommTracer* const tracer = communicator.tracer();
  const std::vector<RoundTrip> trips =
      tracer == nullptr ? std::vector<RoundTrip>() : tracer->round_trips(clock_round_trips);
  if (communicator.rank() == 0) return ClockOffset{.at = SteadyClock::now()};
  return clock_offset(trips);
}

Nanoseconds ClockMap::ahead(SteadyClock::time_point own) const {
  const double between = nanoseconds(after_.at - before_.at);
  if (between <= 0) return before_.ahead;
  const double part = nanoseconds(own - before_.at) / between;
  return before_.ahead + Nanoseconds(std::llround(part * nanoseconds(after_.ahead - before_.ahead)));
}

SteadyClock::time_point ClockMap::on_rank_0(SteadyClock::time_point own) const {
  return own + ahead(own);
}

Nanoseconds ClockMap::error() const {
  return std::max(before_.error, after_.error);
}

double ClockMap::drift_ppm() const {
  const double between = nanoseconds(after_.at - before_.at);
  return between <= 0 ? 0 : nanoseconds(after_.ahead - before_.ahead) / between * 1e6;
}

}  // namespace babelring
