#pragma once

#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

#include "nmt/core/buffer.h"
#include "nmt/core/tensor.h"

namespace babelring {

/// A block of memory from Communicator::allocate(). Ownership is shared by the Buffers returned to the caller and by
/// the collectives in flight, so the memory lives as long as either uses it.
class CommMemory {
 public:
  CommMemory() = default;
  CommMemory(CommMemory&&) = default;
  virtual ~CommMemory() = default;
  virtual char* data() const = 0;
  virtual std::size_t bytes() const = 0;

  /// This rank's rounding error of the float at `value`, which lies in this memory; the errors of the floats after it
  /// follow. Zero at first. See GradientWire::int8.
  float* error_of(const float* value);
  void forget_errors() { errors_ = Buffer(); }

 private:
  Buffer errors_;  // as many bytes as this memory; empty before use
};

/// Returns a Buffer that shares ownership of `memory`.
Buffer owning_buffer(std::shared_ptr<CommMemory> memory);

/// Finds the memory block that contains a tensor. Not thread-safe.
class MemoryRegistry {
 public:
  /// Registers `memory` and returns owning_buffer(memory).
  Buffer add(const std::shared_ptr<CommMemory>& memory);
  /// The live block that contains `tensor`; null if there is none.
  std::shared_ptr<CommMemory> find(const Tensor& tensor) const;
  /// The block that contains contiguous f32; null for an empty tensor outside. Throws Failure that names the `call` for
  /// any other tensor.
  std::shared_ptr<CommMemory> of_floats(std::string_view call, const Tensor& tensor) const;
  void forget_errors() const;

 private:
  std::vector<std::weak_ptr<CommMemory>> known_;
};

/// Allocates memory private to this process.
std::shared_ptr<CommMemory> make_private_memory(std::size_t bytes);
/// The same, but pages take memory when they are first written.
std::shared_ptr<CommMemory> make_sparse_memory(std::size_t bytes);

}  // namespace babelring
