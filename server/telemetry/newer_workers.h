#pragma once

#include <spdlog/spdlog.h>

#include <cstddef>
#include <mutex>
#include <set>
#include <string>

#include "base/records/records.h"

namespace babelring::telemetry {

/// Logs once per run that its workers report members that this server does not know. Thread-safe.
class NewerWorkers {
 public:
  void report(const std::string& run, const UnknownMembers& unknown) {
    {
      const std::lock_guard lock(mutex_);
      if (runs_.size() >= max_runs) runs_.clear();
      if (!runs_.insert(run).second) return;
    }
    spdlog::warn("run {}: its workers are newer than this server: '{}' and other unknown members are not stored", run,
                 unknown.first);
  }

 private:
  static constexpr std::size_t max_runs = 10'000;
  std::mutex mutex_;
  std::set<std::string> runs_;
};

}  // namespace babelring::telemetry
