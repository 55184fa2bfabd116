#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "nmt/data/update_source.h"

namespace babelring {

/// The part of each update that each rank computes (data.balance). Thread-safe.
class UpdateAssignment {
 public:
  /// Where the ranks' parts begin, as fractions of an update: rank r has [bounds[r], bounds[r + 1]). From 0 to 1.
  using Bounds = std::vector<double>;

  /// Equal parts.
  explicit UpdateAssignment(int ranks);

  std::shared_ptr<const Bounds> bounds(std::int64_t update) const;
  /// The fractions from update `first` on, scaled to a sum of 1. `first` must lie after all updates that bounds() was
  /// called for, and the fractions before must be in use by then: only these two are stored. Throws Failure unless
  /// there is a positive one for each rank.
  void set(std::int64_t first, const std::vector<double>& fractions);

 private:
  std::size_t ranks_;
  mutable std::mutex mutex_;
  std::map<std::int64_t, std::shared_ptr<const Bounds>> by_first_update_;
};

/// The fractions with which all ranks would compute equally long. With `fractions`, rank r computed for
/// compute_ms[r][i] in block i of updates. A fraction is at least a quarter of and at most twice an equal one. Returns
/// `fractions` if a time is 0, or unless a rank's speed differs from the ranks' mean by more than 3 % and by more than
/// noise: 3.5 times the standard error of its mean over the blocks, which with eight blocks happens by chance in 1 of
/// 100 measurements of equal ranks.
std::vector<double> balanced_fractions(const std::vector<double>& fractions,
                                       const std::vector<std::vector<double>>& compute_ms);

/// The largest fraction that balanced_fractions() returns, as a multiple of an equal one.
inline constexpr double max_balanced_fraction = 2;

/// The number of units that each rank computes so that the slowest is done as early as possible: rank r computes with a
/// speed in proportion to fractions[r]. At least 1 and at most twice an equal number each. `units` is a multiple of the
/// number of ranks.
std::vector<int> unit_counts(const std::vector<double>& fractions, int units);

/// The units that move if the rank at position p computes counts[p] of them: as few as possible, the last ones of the
/// ranks with fewer than an equal number, ascending.
std::vector<MovedUnit> moved_units(const std::vector<int>& counts);

/// Sets which units of `batches.update` the part's rank computes and which move.
void assign_units(UpdateBatches& batches, const RankPart& part);

}  // namespace babelring
