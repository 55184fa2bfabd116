#pragma once

#include <cstddef>
#include <cstdint>
#include <mutex>
#include <string>
#include <unordered_map>
#include <vector>

namespace babelring::http {

/// How many ranks report with each token, as far as this process has taken reports from them. Thread-safe.
class RunRanks {
 public:
  /// Ranks counted for a token whose runs do not say how many they have: anybody who has one can invent ranks.
  static constexpr std::int64_t max_unknown_ranks = 512;

  /// A report of rank `rank`, from 0, of the run was taken from the token (empty: without one). `ranks`: how many the
  /// run has, which the token can count to; 0: not known.
  void note(const std::string& token, const std::string& run, std::int64_t rank, std::int64_t ranks) {
    const std::int64_t limit = ranks > 0 ? ranks : max_unknown_ranks;
    const std::lock_guard lock(mutex_);
    if (tokens_.size() >= max_tokens && !tokens_.contains(token)) tokens_.clear();  // those that still report come back
    Token& heard = tokens_[token];
    if (rank < 0 || heard.count >= limit) return;
    std::vector<bool>& of_run = heard.runs[run];
    const auto index = static_cast<std::size_t>(rank);
    if (index >= of_run.size()) of_run.resize(index + 1);
    if (of_run[index]) return;
    of_run[index] = true;
    ++heard.count;
  }
  /// 0: none has.
  std::int64_t of(const std::string& token) const {
    const std::lock_guard lock(mutex_);
    const auto found = tokens_.find(token);
    return found == tokens_.end() ? 0 : found->second.count;
  }

 private:
  static constexpr std::size_t max_tokens = 10'000;
  struct Token {
    std::unordered_map<std::string, std::vector<bool>> runs;  // which of its ranks have reported
    std::int64_t count = 0;
  };
  mutable std::mutex mutex_;
  std::unordered_map<std::string, Token> tokens_;
};

}  // namespace babelring::http
