#include "nmt/optim/moment.h"

#include <algorithm>

#include "base/failure.h"

namespace babelring {

namespace {

std::int64_t elements_in(const std::vector<ElementRange>& ranges) {
  std::int64_t elements = 0;
  for (const auto& [begin, end] : ranges) elements += end - begin;
  return elements;
}

}  // namespace

Moment::Moment(Buffer memory, std::int64_t size, const Shards& shard)
    : memory_(std::move(memory)), size_(size), kept_(shard.within({0, size})) {
  std::int64_t next = 0;
  for (const auto& [begin, end] : kept_) {
    begins_.push_back(next);
    next += end - begin;
  }
}

std::size_t Moment::bytes_of(std::int64_t size, const Shards& shard) {
  return static_cast<std::size_t>(elements_in(shard.within({0, size}))) * size_of(DType::f32);
}

Tensor Moment::values() const {
  return memory_.view(Shape{elements_in(kept_)}, DType::f32);
}

Tensor Moment::part(const ElementRange& range) const {
  const auto after = std::upper_bound(kept_.begin(), kept_.end(), range.begin,
                                      [](std::int64_t begin, const ElementRange& kept) { return begin < kept.begin; });
  if (after == kept_.begin() || std::prev(after)->end < range.end) {
    fail("a moment has no values for elements {} to {}", range.begin, range.end);
  }
  const auto index = static_cast<std::size_t>(after - kept_.begin() - 1);
  return values().row_slice(begins_[index] + range.begin - kept_[index].begin, range.end - range.begin);
}

}  // namespace babelring
