#pragma once

#include <spdlog/spdlog.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <tuple>

#include "base/records/records.h"
#include "server/http/router.h"

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

/// Counts responses by route, method and status, with a histogram of latencies from the end of the request to the
/// response, including queueing. Thread-safe.
class HttpMeter {
 public:
  static constexpr std::array<double, 11> bounds_s = {0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1, 5};
  struct Cell {
    std::array<std::uint64_t, bounds_s.size() + 1> buckets{};  // the last is for longer times
    double seconds = 0;
  };
  using Key = std::tuple<std::string, std::string, int>;  // route's template, method, status

  void count(const std::string& route, const std::string& method, int status, double seconds);
  std::map<Key, Cell, std::less<>> read() const;

 private:
  mutable std::mutex mutex_;
  std::map<Key, Cell, std::less<>> cells_;  // bounded by the number of routes and statuses
};

/// Wraps a handler so that its responses and exceptions are counted. Converts store::Busy to Problem 503.
http::AsyncHandler metered(std::shared_ptr<HttpMeter> meter, const http::Route& route, http::AsyncHandler handler);

}  // namespace babelring::telemetry
