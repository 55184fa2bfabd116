#include "lab/timeline/rank_shares.h"

#include <algorithm>

namespace babelring {

double TimeSet::ms() const {
  double sum = 0;
  for (const auto& [begin, end] : joined()) sum += end - begin;
  return sum / 1e3;
}

TimeSet TimeSet::within(const TimeSet& other) const {
  TimeSet both;
  const auto ours = joined(), theirs = other.joined();
  for (auto a = ours.begin(), b = theirs.begin(); a != ours.end() && b != theirs.end();) {
    both.add(std::max(a->first, b->first), std::min(a->second, b->second));
    (a->second < b->second ? a : b)++;
  }
  return both;
}

std::vector<std::pair<double, double>> TimeSet::joined() const {
  std::vector<std::pair<double, double>> sorted = parts_, whole;
  std::ranges::sort(sorted);
  for (const auto& part : sorted) {
    if (!whole.empty() && part.first <= whole.back().second) {
      whole.back().second = std::max(whole.back().second, part.second);
    } else {
      whole.push_back(part);
    }
  }
  return whole;
}

void ShareCounter::add(std::string_view category, std::string_view name, double begin_us, double end_us,
                       std::int64_t bytes) {
  const bool phase = category == "phase", range = device_ && category == "range";
  if (category == "update") updates_.add(begin_us, end_us);
  if (category == "collective" && bytes > 0) all_reduces_.add(begin_us, end_us);
  if (phase && name == "data") data_.add(begin_us, end_us);
  if (phase && !device_ && name == "communication") exposed_.add(begin_us, end_us);
  if (range && name == "gradient_sum") exposed_.add(begin_us, end_us);
  const bool computes = name != "data" && name != "communication" && name != "other";
  if (phase && !device_ && computes) compute_.add(begin_us, end_us);
  if (range && name != "gradient_sum" && name != "data") compute_.add(begin_us, end_us);
}

RankShares ShareCounter::shares() const {
  RankShares shares;
  const TimeSet all_reduces = all_reduces_.within(updates_);
  shares.total_ms = updates_.ms();
  shares.exposed_ms = exposed_.within(updates_).ms();
  shares.compute_ms = compute_.within(updates_).ms();
  // A device computes on while the host waits for data.
  shares.data_ms = std::clamp(shares.total_ms - shares.exposed_ms - shares.compute_ms, 0.0, data_.ms());
  shares.other_ms = shares.total_ms - shares.exposed_ms - shares.compute_ms - shares.data_ms;
  shares.hidden_ms = all_reduces.ms() - all_reduces.within(exposed_).ms();
  if (all_reduces.ms() > 0) shares.overlap = shares.hidden_ms / all_reduces.ms();
  return shares;
}

}  // namespace babelring
