#pragma once

#include <cstddef>
#include <functional>
#include <utility>

#include "nmt/core/tensor.h"

namespace babelring {

/// Owns 256-byte aligned memory of one device. Move-only. Created by Backend::allocate and allocate_host; `release`
/// frees the memory.
class Buffer {
 public:
  Buffer() = default;
  Buffer(void* data, std::size_t bytes, std::function<void(void*)> release)
      : data_(data), bytes_(bytes), release_(std::move(release)) {}
  ~Buffer() { reset(); }
  Buffer(Buffer&& other) noexcept { swap(other); }
  Buffer& operator=(Buffer&& other) noexcept {
    if (this != &other) {
      reset();
      swap(other);
    }
    return *this;
  }

  void* data() const { return data_; }
  std::size_t bytes() const { return bytes_; }
  /// A view of `shape` and `type` that starts at byte `offset`. Throws Failure if it exceeds the buffer.
  Tensor view(Shape shape, DType type, std::size_t offset = 0) const;

 private:
  void reset() {
    if (data_ != nullptr) release_(data_);
    data_ = nullptr;
    bytes_ = 0;
  }
  void swap(Buffer& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(bytes_, other.bytes_);
    std::swap(release_, other.release_);
  }
  void* data_ = nullptr;
  std::size_t bytes_ = 0;
  std::function<void(void*)> release_;
};

/// Allocates zeroed, 256-byte aligned host memory. Throws Failure with the requested size if out of memory.
Buffer allocate_host(std::size_t bytes);

}  // namespace babelring
