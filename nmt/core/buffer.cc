#include "nmt/core/buffer.h"

#include <cstdlib>
#include <cstring>

#include "nmt/base/failure.h"

namespace babelring {

Tensor Buffer::view(Shape shape, DType type, std::size_t offset) const {
  const std::size_t needed = static_cast<std::size_t>(shape.elements()) * size_of(type);
  if (offset + needed > bytes_) {
    fail("buffer: {} {} at byte {} needs {} bytes, the buffer has {}", name_of(type), shape.text(), offset, needed,
         bytes_);
  }
  return Tensor(static_cast<char*>(data_) + offset, shape, type);
}

Buffer allocate_host(std::size_t bytes) {
  const std::size_t rounded = (bytes + 255) / 256 * 256;
  if (rounded == 0) return {};
  void* data = std::aligned_alloc(256, rounded);
  if (data == nullptr) fail("out of memory: {} bytes were needed", bytes);
  std::memset(data, 0, rounded);
  return Buffer(data, bytes, [](void* memory) { std::free(memory); });
}

}  // namespace babelring
