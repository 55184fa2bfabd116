#pragma once

#include <cstddef>
#include <functional>
#include <utility>

#include "nmt/core/tensor.h"

namespace babelring {

/// Owner of 256-byte aligned bytes on one device. Move-only; made by Backend::allocate.
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
  /// Elements of `type` from byte `offset`. Throws Failure if they do not fit.
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

/// 256-byte aligned, zeroed host memory. Throws Failure (bytes needed) when there is none.
Buffer allocate_host(std::size_t bytes);

}  // namespace babelring
