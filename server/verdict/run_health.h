#pragma once

#include <chrono>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "insight/steps.h"
#include "insight/verdict/health.h"
#include "server/launch/heartbeats.h"
#include "server/store/alerts.h"
#include "server/store/runs.h"

namespace babelring::verdict {

/// Whether a running run has not reported for stale_after_ms.
inline constexpr std::int64_t stale_after_ms = 60'000;
bool is_stale(const store::RunRow& run, std::int64_t now_ms);

/// Computes and caches the health of runs. The parts that need queries are computed once per state of a run. For a
/// training run they are computed again only after 20 times the time they took. Thread-safe.
class HealthCache {
 public:
  using Milliseconds = std::chrono::duration<double, std::milli>;

  /// Limits on recomputing within one call or response.
  struct Budget {
    Milliseconds time{1e9};   // remaining time
    Milliseconds max_age{0};  // cached parts younger than this are not recomputed
  };

  /// `alerts` may include alerts of other runs, which are ignored. `heartbeats` may be null. Parts beyond the budget
  /// come from the cache or are left out. Throws SqlFailure.
  Health health(store::Reader& reader, const store::RunRow& run, const std::vector<store::AlertRow>& alerts,
                const launch::Heartbeats* heartbeats, std::int64_t now_ms, Budget& budget);

 private:
  /// Cached parts of a run's health.
  struct Entry {
    store::RunState state{};
    std::int64_t attempt = 0, updated_ms = 0;
    SteadyClock::time_point found_at;
    Milliseconds took{0};
    std::string last_error;
    std::vector<HealthPart> parts;  // learning, speed, hosts
  };
  static constexpr std::size_t max_entries = 4096;

  std::optional<Entry> known(const store::RunRow& run, const Budget& budget, bool& fresh) const;
  static Entry find(store::Reader& reader, const store::RunRow& run, const launch::Heartbeats* heartbeats);

  mutable std::mutex mutex_;
  std::map<std::string, Entry> entries_;
};

/// The load of the run's hosts with a heartbeat within the last minute. `heartbeats` may be null.
std::vector<HostLoad> host_loads(const store::RunRow& run, const launch::Heartbeats* heartbeats);

}  // namespace babelring::verdict
