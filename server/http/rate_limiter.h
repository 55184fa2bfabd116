#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <string>
#include <unordered_map>
#include <vector>

namespace babelring::http {

/// Counts the ranks that report with each token, over the reports received by this process. Thread-safe.
class RunRanks {
 public:
  /// Max ranks counted for a token if the number of ranks of its runs is unknown. Limits forged ranks.
  static constexpr std::int64_t max_unknown_ranks = 512;

  /// Records a report of rank `rank` (from 0) of `run` with `token` (empty: no token). `ranks`: number of ranks of the
  /// run, which limits the token's count; 0: unknown.
  void record(const std::string& token, const std::string& run, std::int64_t rank, std::int64_t ranks) {
    const std::int64_t limit = ranks > 0 ? ranks : max_unknown_ranks;
    const std::lock_guard lock(mutex_);
    if (tokens_.size() >= max_tokens && !tokens_.contains(token))
      tokens_.clear();  // active tokens return with their next report
    Token& heard = tokens_[token];
    if (rank < 0 || heard.count >= limit) return;
    std::vector<bool>& of_run = heard.runs[run];
    const auto index = static_cast<std::size_t>(rank);
    if (index >= of_run.size()) of_run.resize(index + 1);
    if (of_run[index]) return;
    of_run[index] = true;
    ++heard.count;
  }
  /// Number of ranks that report with this token.
  std::int64_t of(const std::string& token) const {
    const std::lock_guard lock(mutex_);
    const auto found = tokens_.find(token);
    return found == tokens_.end() ? 0 : found->second.count;
  }

 private:
  static constexpr std::size_t max_tokens = 10'000;
  struct Token {
    std::unordered_map<std::string, std::vector<bool>> runs;  // by run: whether rank i has reported
    std::int64_t count = 0;
  };
  mutable std::mutex mutex_;
  std::unordered_map<std::string, Token> tokens_;
};

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
