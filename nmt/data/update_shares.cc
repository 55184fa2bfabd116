#include "nmt/data/update_shares.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <numeric>

#include "base/failure.h"

namespace babelring {
namespace {

constexpr double min_balanced_share = 0.25, min_change = 0.03;
constexpr int clamping_rounds = 20;  // each comes closer to shares within both limits

void scale_to_one(std::vector<double>& shares) {
  const double sum = std::accumulate(shares.begin(), shares.end(), 0.0);
  for (double& share : shares) share /= sum;
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

std::vector<double> balanced_shares(const std::vector<double>& shares, const std::vector<double>& compute_ms) {
  std::vector<double> balanced = shares;
  for (std::size_t rank = 0; rank < shares.size(); ++rank) {
    if (compute_ms[rank] <= 0) return shares;
    balanced[rank] /= compute_ms[rank];
  }
  scale_to_one(balanced);
  const double equal = 1 / static_cast<double>(shares.size());
  for (int round = 0; round < clamping_rounds; ++round) {
    for (double& share : balanced) share = std::clamp(share, min_balanced_share * equal, max_balanced_share * equal);
    scale_to_one(balanced);
  }
  bool changes = false;
  for (std::size_t rank = 0; rank < shares.size(); ++rank) {
    changes = changes || std::abs(balanced[rank] - shares[rank]) > min_change * shares[rank];
  }
  return changes ? balanced : shares;
}

}  // namespace babelring
