#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "nmt/core/buffer.h"
#include "nmt/core/tensor.h"

namespace babelring {

/// What Communicator::allocate() handed out. The Buffers given away and the collectives in flight share its ownership,
/// so it is there as long as anybody may touch it.
class CommMemory {
 public:
  virtual ~CommMemory() = default;
  virtual char* data() const = 0;
  virtual std::size_t bytes() const = 0;
};

/// A Buffer that shares the ownership of `memory`.
Buffer owning_buffer(std::shared_ptr<CommMemory> memory);

/// Which memory a tensor lies in. Used by one thread.
class MemoryRegistry {
 public:
  /// owning_buffer() of `memory`, which find() finds from now on.
  Buffer add(const std::shared_ptr<CommMemory>& memory);
  /// Null if `tensor` lies in none that is still owned.
  std::shared_ptr<CommMemory> find(const Tensor& tensor) const;

 private:
  std::vector<std::weak_ptr<CommMemory>> known_;
};

/// Memory of this process alone.
std::shared_ptr<CommMemory> make_private_memory(std::size_t bytes);

}  // namespace babelring
