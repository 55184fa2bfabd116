#pragma once

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

}  // namespace babelring::http
