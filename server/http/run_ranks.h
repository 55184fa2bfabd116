#pragma once

#include <cstddef>
#include <cstdint>
#include <mutex>
#include <string>
#include <unordered_map>
#include <vector>

namespace babelring::http {

/// How many ranks report for each run, as far as this process has heard from them. Ranks from max_ranks on are not
/// counted: one request that names a high rank must not raise a limit by much. Thread-safe.
class RunRanks {
 public:
  static constexpr std::int64_t max_ranks = 4096;

  /// Rank `rank` of the run, counted from 0, has reported.
  void note(const std::string& run, std::int64_t rank) {
    if (rank < 0 || rank >= max_ranks) return;
    const std::lock_guard lock(mutex_);
    if (runs_.size() >= max_runs && !runs_.contains(run)) runs_.clear();  // those that still report come back
    Run& heard = runs_[run];
    const auto index = static_cast<std::size_t>(rank);
    if (index >= heard.ranks.size()) heard.ranks.resize(index + 1);
    if (heard.ranks[index]) return;
    heard.ranks[index] = true;
    ++heard.count;
  }
  /// 0: none has.
  std::int64_t of(const std::string& run) const {
    const std::lock_guard lock(mutex_);
    const auto found = runs_.find(run);
    return found == runs_.end() ? 0 : found->second.count;
  }

 private:
  static constexpr std::size_t max_runs = 10'000;
  struct Run {
    std::vector<bool> ranks;  // which have reported
    std::int64_t count = 0;
  };
  mutable std::mutex mutex_;
  std::unordered_map<std::string, Run> runs_;
};

}  // namespace babelring::http
