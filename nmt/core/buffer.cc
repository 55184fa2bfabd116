#include "nmt/core/buffer.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <functional>

#include "base/failure.h"

namespace babelring {

void release_pages(void* data, std::size_t bytes) {
  constexpr std::uintptr_t page = 4096;
  const auto address = reinterpret_cast<std::uintptr_t>(data);
  const std::uintptr_t begin = (address + page - 1) / page * page, end = (address + bytes) / page * page;
  if (begin >= end) return;
  void* first = static_cast<char*>(data) + (begin - address);
  // MADV_REMOVE frees pages of shared memory only, MADV_DONTNEED of private memory only.
  if (::madvise(first, end - begin, MADV_REMOVE) != 0) ::madvise(first, end - begin, MADV_DONTNEED);
}

Tensor Buffer::view(Shape shape, DType type, std::size_t offset) const {
  const std::size_t needed = static_cast<std::size_t>(shape.elements()) * size_of(type);
  if (offset + needed > bytes_) {
    fail("buffer: {} {} at byte {} needs {} bytes, the buffer has {}", name_of(type), shape.text(), offset, needed,
         bytes_);
  }
  return Tensor(static_cast<char*>(data_) + offset, shape, type);
}

namespace {

constexpr std::size_t alignment = 256;

}  // namespace

Buffer allocate_host(std::size_t bytes) {
  // Each update touches hundreds of megabytes. Huge pages keep TLB misses from dominating.
  const std::size_t page = bytes >= huge_page ? huge_page : alignment;
  const std::size_t rounded = (bytes + page - 1) / page * page;
  if (rounded == 0) return {};
  void* data = std::aligned_alloc(page, rounded);
  if (data == nullptr) fail("out of memory: {} bytes were needed", bytes);
  if (page == huge_page) ::madvise(data, rounded, MADV_HUGEPAGE);  // a hint; failure only costs speed
  std::memset(data, 0, rounded);
  return Buffer(data, bytes, [](void* memory) { std::free(memory); });
}

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
