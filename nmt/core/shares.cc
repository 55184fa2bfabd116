#include "nmt/core/shares.h"

#include <algorithm>

#include "base/failure.h"

namespace babelring {

Shares::Shares(std::int64_t count, int rank, int ranks) : rank_(rank), ranks_(ranks) {
  if (ranks < 1 || rank < 0 || rank >= ranks) fail("shares: rank {} of {}", rank, ranks);
  constexpr std::int64_t stripes_of_a_rank = 64;  // one more or less is little; each is long enough for several threads
  stripe_ = std::max<std::int64_t>(1, count / (ranks * stripes_of_a_rank) / grain) * grain;
}

std::vector<ElementRange> Shares::within(ElementRange range) const {
  if (range.begin >= range.end) return {};
  if (!divided()) return {range};
  std::vector<ElementRange> own;
  const std::int64_t first_round = range.begin / (stripe_ * ranks_);
  for (std::int64_t begin = (first_round * ranks_ + rank_) * stripe_; begin < range.end; begin += stripe_ * ranks_) {
    const ElementRange part{std::max(begin, range.begin), std::min(begin + stripe_, range.end)};
    if (part.begin < part.end) own.push_back(part);
  }
  return own;
}

}  // namespace babelring
