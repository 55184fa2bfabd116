#pragma once

#include <chrono>
#include <cstddef>
#include <mutex>
#include <string>
#include <unordered_map>

namespace babelring::http {

/// A bucket of permits for each name: `burst` at first, refilled steadily. Thread-safe.
class RateLimiter {
 public:
  struct Options {
    double a_second = 1000;  // permits that come back each second; 0: no limit
    double burst = 2000;     // most that are saved up
  };
  using Time = std::chrono::steady_clock::time_point;

  explicit RateLimiter(const Options& options) : options_(options) {}

  struct Verdict {
    bool allowed = true;
    double left = 0;          // permits
    double wait_seconds = 0;  // until there is one, where there is none
    double full_seconds = 0;  // until all are back
  };
  /// Takes a permit from the bucket of that name, if there is one.
  Verdict take(const std::string& name, Time now);

  const Options& options() const { return options_; }
  bool limited() const { return options_.a_second > 0; }
  std::size_t buckets() const;

  static constexpr std::size_t most_buckets = 20'000;

 private:
  struct Bucket {
    double permits;
    Time seen;
  };
  double refilled(const Bucket& bucket, Time now) const;
  /// Drops the buckets that are full again, or all if none is: each is then as if new.
  void make_room(Time now);

  const Options options_;
  mutable std::mutex mutex_;
  std::unordered_map<std::string, Bucket> buckets_;
};

}  // namespace babelring::http
