#include "nmt/core/arena.h"

#include <algorithm>
#include <functional>

namespace babelring {

Tensor Arena::make(Shape shape, DType type) {
  const std::size_t bytes = (static_cast<std::size_t>(shape.elements()) * size_of(type) + 255) / 256 * 256;
  while (block_ < blocks_.size() && offset_ + bytes > blocks_[block_].bytes()) {
    ++block_;
    offset_ = 0;
  }
  if (block_ == blocks_.size()) {
    blocks_.push_back(allocate_(std::max(bytes, block_bytes_)));
    offset_ = 0;
  }
  Tensor tensor = blocks_[block_].view(shape, type, offset_);
  offset_ += bytes;
  used_ += bytes;
  peak_ = std::max(peak_, used_);
  return tensor;
}

Tensor Arena::make_rows(std::int64_t rows, std::int64_t columns, DType type) {
  constexpr std::size_t cache_line = 64, cache_way = 4096;
  const std::size_t element = size_of(type);
  const bool aliased = pads_rows_ && static_cast<std::size_t>(columns) * element % cache_way == 0;
  const auto padding = static_cast<std::int64_t>(aliased ? cache_line / element : 0);
  return make(Shape{rows, columns + padding}, type).column_slice(0, columns);
}

void Arena::reserve(std::size_t bytes) {
  if (blocks_.empty() && bytes > 0) blocks_.push_back(allocate_(std::max(bytes, block_bytes_)));
}

void Arena::reset_to_one_block() {
  reset();
  if (blocks_.size() < 2) return;
  blocks_.clear();
  reserve(peak_);
}

bool Arena::holds(const void* address) const {
  const auto* byte = static_cast<const char*>(address);
  for (std::size_t i = 0; i < blocks_.size() && i <= block_; ++i) {
    const auto* begin = static_cast<const char*>(blocks_[i].data());
    const std::size_t used = i < block_ ? blocks_[i].bytes() : offset_;
    if (std::less_equal<>()(begin, byte) && std::less<>()(byte, begin + used)) return true;
  }
  return false;
}

void Arena::rewind(Mark mark) {
  block_ = mark.block;
  offset_ = mark.offset;
  used_ = mark.used;
}

}  // namespace babelring
