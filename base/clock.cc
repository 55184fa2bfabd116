#include "base/clock.h"

#include <fmt/chrono.h>

#include <ctime>

namespace babelring {

namespace {

double clock_ms(clockid_t clock) {
  timespec time{};
  ::clock_gettime(clock, &time);
  return 1e3 * static_cast<double>(time.tv_sec) + 1e-6 * static_cast<double>(time.tv_nsec);
}

}  // namespace

std::int64_t wall_time_ms() {
  return std::chrono::duration_cast<std::chrono::milliseconds>(std::chrono::system_clock::now().time_since_epoch())
      .count();
}

std::string format_rfc3339(std::int64_t wall_ms) {
  std::int64_t seconds = wall_ms / 1000;
  std::int64_t ms = wall_ms % 1000;
  if (ms < 0) {
    ms += 1000;
    --seconds;
  }
  const auto when = static_cast<std::time_t>(seconds);
  std::tm utc{};
  gmtime_r(&when, &utc);
  return fmt::format("{:%Y-%m-%dT%H:%M:%S}.{:03}Z", utc, ms);
}

double other_threads_ms() {
  return clock_ms(CLOCK_PROCESS_CPUTIME_ID) - clock_ms(CLOCK_THREAD_CPUTIME_ID);
}

}  // namespace babelring
