#include "nmt/data/update_shares.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <numeric>

#include "base/failure.h"

namespace babelring {
namespace {

constexpr double min_balanced_share = 0.25, min_difference = 0.03, min_standard_errors = 3.5;
constexpr int clamping_rounds = 20;  // each comes closer to shares within both limits

void scale_to_one(std::vector<double>& shares) {
  const double sum = std::accumulate(shares.begin(), shares.end(), 0.0);
  for (double& share : shares) share /= sum;
}

/// Mean over ranks of the logarithm of their times in a block of updates.
double mean_logarithm(const std::vector<std::vector<double>>& compute_ms, std::size_t block) {
  double sum = 0;
  for (const std::vector<double>& of_rank : compute_ms) sum += std::log(of_rank[block]);
  return sum / static_cast<double>(compute_ms.size());
}

/// See balanced_shares(). Within a block all ranks compute the same updates, so differences of logarithms do not
/// contain the size of these.
bool speeds_differ(const std::vector<std::vector<double>>& compute_ms) {
  const std::size_t blocks = compute_ms.at(0).size();
  const auto count = static_cast<double>(blocks);
  for (const std::vector<double>& of_rank : compute_ms) {
    double sum = 0, squares = 0;
    for (std::size_t block = 0; block < blocks; ++block) {
      const double difference = std::log(of_rank[block]) - mean_logarithm(compute_ms, block);
      sum += difference;
      squares += difference * difference;
    }
    const double mean = sum / count;
    const double variance = std::max(0.0, squares / count - mean * mean) / std::max(1.0, count - 1);  // of the mean
    if (std::abs(mean) > std::max(min_difference, min_standard_errors * std::sqrt(variance))) return true;
  }
  return false;
}

}  // namespace

UpdateShares::UpdateShares(int ranks) : ranks_(static_cast<std::size_t>(ranks)) {
  set(0, std::vector<double>(ranks_, 1.0));
}

std::shared_ptr<const UpdateShares::Bounds> UpdateShares::bounds(std::int64_t update) const {
  const std::lock_guard lock(mutex_);
  return std::prev(by_first_update_.upper_bound(update))->second;
}

void UpdateShares::set(std::int64_t first, const std::vector<double>& shares) {
  if (shares.size() != ranks_ || !std::all_of(shares.begin(), shares.end(), [](double share) { return share > 0; })) {
    fail("shares: {} for {} ranks, expected a positive one for each", shares.size(), ranks_);
  }
  std::vector<double> scaled = shares;
  scale_to_one(scaled);
  auto bounds = std::make_shared<Bounds>(1, 0.0);
  for (const double share : scaled) bounds->push_back(bounds->back() + share);
  bounds->back() = 1;
  const std::lock_guard lock(mutex_);
  by_first_update_[first] = std::move(bounds);
  if (by_first_update_.size() > 2) by_first_update_.erase(by_first_update_.begin());  // no update asks for it any more
}

std::vector<double> balanced_shares(const std::vector<double>& shares,
                                    const std::vector<std::vector<double>>& compute_ms) {
  for (const std::vector<double>& of_rank : compute_ms) {
    if (!std::all_of(of_rank.begin(), of_rank.end(), [](double ms) { return ms > 0; })) return shares;
  }
  if (!speeds_differ(compute_ms)) return shares;
  std::vector<double> balanced = shares;
  for (std::size_t rank = 0; rank < shares.size(); ++rank) {
    balanced[rank] /= std::accumulate(compute_ms[rank].begin(), compute_ms[rank].end(), 0.0);
  }
  scale_to_one(balanced);
  const double equal = 1 / static_cast<double>(shares.size());
  for (int round = 0; round < clamping_rounds; ++round) {
    for (double& share : balanced) share = std::clamp(share, min_balanced_share * equal, max_balanced_share * equal);
    scale_to_one(balanced);
  }
  return balanced;
}

}  // namespace babelring
