#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <string>
#include <unordered_map>

namespace babelring::http {

/// How many ranks report for each run, as far as this process has heard from them. Thread-safe.
class RunRanks {
 public:
  /// Rank `rank` of the run, counted from 0, has reported.
  void note(const std::string& run, std::int64_t rank) {
    const std::lock_guard lock(mutex_);
    if (ranks_.size() >= max_runs && !ranks_.contains(run)) ranks_.clear();  // those that still report come back
    std::int64_t& ranks = ranks_[run];
    ranks = std::max(ranks, rank + 1);
  }
  /// 0: none has.
  std::int64_t of(const std::string& run) const {
    const std::lock_guard lock(mutex_);
    const auto found = ranks_.find(run);
    return found == ranks_.end() ? 0 : found->second;
  }

 private:
  static constexpr std::size_t max_runs = 10'000;
  mutable std::mutex mutex_;
  std::unordered_map<std::string, std::int64_t> ranks_;
};

}  // namespace babelring::http
