#pragma once

#include <array>
#include <cstddef>
#include <memory>
#include <vector>

#include "nmt/core/arena.h"
#include "nmt/core/buffer.h"
#include "nmt/ops/cuda/handles.h"

namespace babelring::cuda {

/// Copies between the host and the device by way of pinned memory, in the order of a stream's work: the host does not
/// wait for the stream, which goes on with what was given before.
class PinnedStaging {
 public:
  /// The stream must outlive the object.
  explicit PinnedStaging(const Stream& stream);

  /// `host` is free again on return. Waits only where block_bytes * blocks are still to be copied. False if there are
  /// more bytes than a block has: nothing was done.
  bool upload(void* device, const void* host, std::size_t bytes);
  static constexpr std::size_t block_bytes = std::size_t{2} << 20, blocks = 4;

  /// The numbers are there after the next deliver().
  std::shared_ptr<const std::vector<float>> fetch(const void* device, std::size_t count);
  /// Hands out what was fetched. The stream must have finished its work.
  void deliver();

 private:
  struct Block {
    Buffer memory;
    Event copied;
    bool in_use = false;  // until `copied` is reached
  };
  struct Fetch {
    const void* pinned;
    std::shared_ptr<std::vector<float>> numbers;
  };
  void turn_over();

  cudaStream_t stream_;
  std::array<Block, blocks> ring_;  // made when first used
  std::size_t block_ = 0, offset_ = 0;
  Arena fetched_into_;
  std::vector<Fetch> fetches_;
};

}  // namespace babelring::cuda
