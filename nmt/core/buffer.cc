#include "nmt/core/buffer.h"

#include <sys/mman.h>

#include <cstdlib>
#include <cstring>

#include "base/failure.h"
#include "nmt/core/huge_page.h"

namespace babelring {

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

}  // namespace babelring
