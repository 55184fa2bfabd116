#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <mutex>
#include <string>
#include <unordered_map>

namespace babelring::http {

/// A token bucket for each name, which starts full. Thread-safe.
class RateLimiter {
 public:
  struct Options {
    double a_second = 1000;  // permits added each second; 0: no limit
    double burst = 2000;     // capacity; at least one permit
  };
  using Time = std::chrono::steady_clock::time_point;

  explicit RateLimiter(const Options& options) : options_{options.a_second, std::max(options.burst, 1.0)} {}

  struct Verdict {
    bool allowed = true;
    double left = 0;          // permits in the bucket
    double wait_seconds = 0;  // until the next permit, if refused
    double full_seconds = 0;  // until the bucket is full
  };
  /// Takes a permit from the bucket of that name, if it has one. `scale` multiplies the bucket's rate and capacity.
  Verdict take(const std::string& name, Time now, double scale = 1);

  const Options& options() const { return options_; }
  bool limited() const { return options_.a_second > 0; }
  std::size_t buckets() const;

  static constexpr std::size_t most_buckets = 20'000;

 private:
  struct Bucket {
    double permits;
    Time seen;
    double scale;
  };
  double refilled(const Bucket& bucket, Time now) const;
  /// Drops the buckets that are full again, which are as good as new; if none is, the sixteenth of them that is
  /// fullest. Emptier ones stay: their clients are being held back.
  void make_room(Time now);

  const Options options_;
  mutable std::mutex mutex_;
  std::unordered_map<std::string, Bucket> buckets_;
};

}  // namespace babelring::http
