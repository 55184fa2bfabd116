#pragma once

#include <chrono>
#include <cstdint>
#include <string>

namespace babelring {

/// Monotonic time, for durations and deadlines.
using SteadyClock = std::chrono::steady_clock;
using Nanoseconds = std::chrono::nanoseconds;

/// Wall-clock time in milliseconds since 1970-01-01T00:00:00Z. For display and records only; measure durations with
/// SteadyClock.
std::int64_t wall_time_ms();

/// Formats a wall-clock time as RFC 3339 in UTC with milliseconds: 2026-11-21T08:15:30.123Z.
std::string format_rfc3339(std::int64_t wall_ms);

/// Processor time of the process's other threads so far, in milliseconds. Of threads that are running it may lack up to
/// a tick of the kernel.
double other_threads_ms();

/// Measures the milliseconds since construction or the last lap.
class Stopwatch {
 public:
  double elapsed_ms() const { return std::chrono::duration<double, std::milli>(SteadyClock::now() - start_).count(); }
  /// Returns elapsed_ms() and restarts from zero. Consecutive laps add up without gaps.
  double lap_ms() {
    const auto now = SteadyClock::now();
    const double ms = std::chrono::duration<double, std::milli>(now - start_).count();
    start_ = now;
    return ms;
  }

 private:
  SteadyClock::time_point start_ = SteadyClock::now();
};

}  // namespace babelring
