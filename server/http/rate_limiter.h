#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <mutex>
#include <string>
#include <unordered_map>

namespace babelring::http {

/// A rate limiter with one token bucket per name. Buckets start full. Thread-safe.
class RateLimiter {
 public:
  struct Options {
    double a_second = 1000;  // permits added per second; 0: no limit
    double burst = 2000;     // bucket capacity, at least 1
  };
  using Time = std::chrono::steady_clock::time_point;

  explicit RateLimiter(const Options& options) : options_{options.a_second, std::max(options.burst, 1.0)} {}

  struct Verdict {
    bool allowed = true;
    double left = 0;          // permits left in the bucket
    double wait_seconds = 0;  // time until the next permit, if refused
    double full_seconds = 0;  // time until the bucket is full
  };
  /// Takes a permit from the named bucket if one is available. `scale` multiplies the bucket's rate and capacity.
  Verdict take(const std::string& name, Time now, double scale = 1);

  const Options& options() const { return options_; }
  bool limited() const { return options_.a_second > 0; }
  std::size_t buckets() const;

  static constexpr std::size_t max_buckets = 20'000;

 private:
  struct Bucket {
    double permits;
    Time seen;
    double scale;
  };
  double refilled(const Bucket& bucket, Time now) const;
  /// Drops full buckets, which are equivalent to new ones. If none is full, drops the fullest sixteenth. Emptier
  /// buckets stay, because their clients are being throttled.
  void make_room(Time now);

  const Options options_;
  mutable std::mutex mutex_;
  std::unordered_map<std::string, Bucket> buckets_;
};

}  // namespace babelring::http
