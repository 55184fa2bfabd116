#include "nmt/data/assignment.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <numeric>
#include <utility>

#include "base/failure.h"

namespace babelring {
namespace {

constexpr double min_balanced_fraction = 0.25, min_difference = 0.03, min_standard_errors = 3.5;
constexpr int clamping_rounds = 20;  // each comes closer to fractions within both limits

void scale_to_one(std::vector<double>& fractions) {
  const double sum = std::accumulate(fractions.begin(), fractions.end(), 0.0);
  for (double& fraction : fractions) fraction /= sum;
}

/// Mean over ranks of the logarithm of their times in a block of updates.
double mean_logarithm(const std::vector<std::vector<double>>& compute_ms, std::size_t block) {
  double sum = 0;
  for (const std::vector<double>& of_rank : compute_ms) sum += std::log(of_rank[block]);
  return sum / static_cast<double>(compute_ms.size());
}

/// See balanced_fractions(). Within a block all ranks compute the same updates, so differences of logarithms do not
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

UpdateAssignment::UpdateAssignment(int ranks) : ranks_(static_cast<std::size_t>(ranks)) {
  set(0, std::vector<double>(ranks_, 1.0));
}

std::shared_ptr<const UpdateAssignment::Bounds> UpdateAssignment::bounds(std::int64_t update) const {
  const std::lock_guard lock(mutex_);
  return std::prev(by_first_update_.upper_bound(update))->second;
}

void UpdateAssignment::set(std::int64_t first, const std::vector<double>& fractions) {
  if (fractions.size() != ranks_ ||
      !std::all_of(fractions.begin(), fractions.end(), [](double fraction) { return fraction > 0; })) {
    fail("fractions: {} for {} ranks, expected a positive one for each", fractions.size(), ranks_);
  }
  std::vector<double> scaled = fractions;
  scale_to_one(scaled);
  auto bounds = std::make_shared<Bounds>(1, 0.0);
  for (const double fraction : scaled) bounds->push_back(bounds->back() + fraction);
  bounds->back() = 1;
  const std::lock_guard lock(mutex_);
  by_first_update_[first] = std::move(bounds);
  if (by_first_update_.size() > 2) by_first_update_.erase(by_first_update_.begin());  // no update asks for it any more
}

std::vector<double> balanced_fractions(const std::vector<double>& fractions,
                                       const std::vector<std::vector<double>>& compute_ms) {
  for (const std::vector<double>& of_rank : compute_ms) {
    if (!std::all_of(of_rank.begin(), of_rank.end(), [](double ms) { return ms > 0; })) return fractions;
  }
  if (!speeds_differ(compute_ms)) return fractions;
  std::vector<double> balanced = fractions;
  for (std::size_t rank = 0; rank < fractions.size(); ++rank) {
    balanced[rank] /= std::accumulate(compute_ms[rank].begin(), compute_ms[rank].end(), 0.0);
  }
  scale_to_one(balanced);
  const double equal = 1 / static_cast<double>(fractions.size());
  for (int round = 0; round < clamping_rounds; ++round) {
    for (double& fraction : balanced)
      fraction = std::clamp(fraction, min_balanced_fraction * equal, max_balanced_fraction * equal);
    scale_to_one(balanced);
  }
  return balanced;
}

std::vector<int> unit_counts(const std::vector<double>& fractions, int units) {
  const int ranks = static_cast<int>(fractions.size());
  std::vector<int> counts(fractions.size(), 1);
  for (int given = ranks; given < units; ++given) {
    std::size_t next = fractions.size();
    // When the rank would be done with one more unit; of equal times the rank with fewer units comes first.
    const auto done = [&](std::size_t rank) { return std::pair((counts[rank] + 1) / fractions[rank], counts[rank]); };
    for (std::size_t rank = 0; rank < fractions.size(); ++rank) {
      if (counts[rank] < 2 * units / ranks && (next == fractions.size() || done(rank) < done(next))) next = rank;
    }
    ++counts[next];
  }
  return counts;
}

std::vector<MovedUnit> moved_units(const std::vector<int>& counts) {
  const int ranks = static_cast<int>(counts.size());
  const int equal = std::accumulate(counts.begin(), counts.end(), 0) / ranks;
  std::vector<MovedUnit> moved;
  int helper = 0, spare = 0;  // units that the helper can compute more
  const auto next_helper = [&] {
    while (spare == 0) spare = std::max(0, counts[static_cast<std::size_t>(helper++)] - equal);
    --spare;
    return helper - 1;
  };
  for (int home = 0; home < ranks; ++home) {
    for (int unit = home * equal + counts[static_cast<std::size_t>(home)]; unit < (home + 1) * equal; ++unit) {
      moved.push_back({.unit = unit, .computed_by = next_helper(), .home = home});
    }
  }
  return moved;
}

void assign_units(UpdateBatches& batches, const RankPart& part) {
  if (part.units == 0) return;
  batches.units = units_of(part);
  if (part.assignment != nullptr) {
    const auto bounds = part.assignment->bounds(batches.update);
    std::vector<double> fractions;
    for (std::size_t rank = 0; rank + 1 < bounds->size(); ++rank)
      fractions.push_back((*bounds)[rank + 1] - (*bounds)[rank]);
    batches.moved = moved_units(unit_counts(fractions, part.units));
  }
  batches.computed.clear();
  int last = batches.units.first + batches.units.count;
  for (const MovedUnit& unit : batches.moved) {
    if (unit.computed_by == part.rank) batches.computed.push_back(unit.unit);
    if (unit.home == part.rank) --last;
  }
  for (int unit = batches.units.first; unit < last; ++unit) batches.computed.push_back(unit);
}

}  // namespace babelring
