#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

namespace babelring {

/// The part of each update that each rank computes (data.balance). Thread-safe.
class UpdateShares {
 public:
  /// Where the ranks' parts begin, as fractions of an update: rank r has [bounds[r], bounds[r + 1]). From 0 to 1.
  using Bounds = std::vector<double>;

  /// Equal parts.
  explicit UpdateShares(int ranks);

  std::shared_ptr<const Bounds> bounds(std::int64_t update) const;
  /// The shares from update `first` on, scaled to a sum of 1. `first` must lie after all updates that bounds() was
  /// called for, and the shares before must be in use by then: only these two are stored. Throws Failure unless there
  /// is a positive one for each rank.
  void set(std::int64_t first, const std::vector<double>& shares);

 private:
  std::size_t ranks_;
  mutable std::mutex mutex_;
  std::map<std::int64_t, std::shared_ptr<const Bounds>> by_first_update_;
};

/// The shares with which all ranks would compute equally long. With `shares`, rank r computed for compute_ms[r][i] in
/// block i of updates. A share is at least a quarter of and at most twice an equal one. Returns `shares` if a time is
/// 0, or unless a rank's speed differs from the ranks' mean by more than 3 % and by more than noise: 3.5 times the
/// standard error of its mean over the blocks, which with eight blocks happens by chance in 1 of 100 measurements of
/// equal ranks.
std::vector<double> balanced_shares(const std::vector<double>& shares,
                                    const std::vector<std::vector<double>>& compute_ms);

/// The largest share that balanced_shares() returns, as a multiple of an equal one.
inline constexpr double max_balanced_share = 2;

}  // namespace babelring
