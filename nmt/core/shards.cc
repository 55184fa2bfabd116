#include "nmt/core/shards.h"

#include <algorithm>

#include "base/failure.h"

namespace babelring {

Shards::Shards(std::int64_t count, int rank, int ranks) : rank_(rank), ranks_(ranks) {
  if (ranks < 1 || rank < 0 || rank >= ranks) fail("shards: rank {} of {}", rank, ranks);
  constexpr std::int64_t stripes_per_rank = 64;  // enough for an even load, few enough for stripes of useful length
  stripe_ = std::max<std::int64_t>(1, count / (ranks * stripes_per_rank) / grain) * grain;
}

Shards Shards::in_stripes(std::int64_t stripe, int rank, int ranks) {
  if (stripe < grain || stripe % grain != 0)
    fail("shards: stripes of {} elements, expected a multiple of {}", stripe, grain);
  Shards shards(0, rank, ranks);
  shards.stripe_ = stripe;
  return shards;
}

std::vector<ElementRange> Shards::within(ElementRange range) const {
  if (range.begin >= range.end) return {};
  if (!divided()) return {range};
  std::vector<ElementRange> own;
  const std::int64_t first_round = range.begin / (stripe_ * ranks_);
  for (std::int64_t begin = (first_round * ranks_ + rank_) * stripe_; begin < range.end; begin += stripe_ * ranks_) {
    const ElementRange overlap{std::max(begin, range.begin), std::min(begin + stripe_, range.end)};
    if (overlap.begin < overlap.end) own.push_back(overlap);
  }
  return own;
}

}  // namespace babelring
