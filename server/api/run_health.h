#pragma once

#include <chrono>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/json.h"
#include "server/launch/heartbeats.h"
#include "server/store/alerts.h"
#include "server/store/queries.h"
#include "server/verdict/health.h"
#include "server/verdict/verdict.h"

namespace babelring::api {

/// Nothing has come from a running run for stale_after_ms.
bool is_stale(const store::RunRow& run, std::int64_t now_ms);

/// How the runs do. What takes queries is found once for each state of a run, and of a run that trains again only after
/// 20 times as long as it took. Thread-safe.
class HealthBook {
 public:
  using Milliseconds = std::chrono::duration<double, std::milli>;

  /// How much may be found anew in one call or one answer.
  struct Budget {
    Milliseconds time{1e9};   // what is left
    Milliseconds max_age{0};  // what is younger is good enough
  };

  /// `alerts`: the lasting ones of the run, and others, which are passed over. `heartbeats` may be null. What the
  /// budget does not allow to find is as it was found last, or left out. Throws SqlFailure.
  verdict::Health health(store::Reader& reader, const store::RunRow& run, const std::vector<store::AlertRow>& alerts,
                         const launch::Heartbeats* heartbeats, std::int64_t now_ms, Budget& budget);

 private:
  /// What was found of a run.
  struct Entry {
    std::string state;
    std::int64_t attempt = 0, updated_ms = 0;
    SteadyClock::time_point found_at;
    Milliseconds took{0};
    std::string last_error;
    std::vector<verdict::HealthPart> parts;  // learning, speed, hosts
  };
  static constexpr std::size_t max_entries = 4096;

  std::optional<Entry> known(const store::RunRow& run, const Budget& budget, bool& fresh) const;
  static Entry find(store::Reader& reader, const store::RunRow& run, const launch::Heartbeats* heartbeats);

  mutable std::mutex mutex_;
  std::map<std::string, Entry> entries_;
};

/// The load of the run's hosts, of those whose heartbeat is not older than a minute. `heartbeats` may be null.
std::vector<verdict::HostLoad> host_loads(const store::RunRow& run, const launch::Heartbeats* heartbeats);

json::object health_item(const verdict::Health& health);

}  // namespace babelring::api
