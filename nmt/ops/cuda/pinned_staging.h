#pragma once

#include <array>
#include <cstddef>
#include <memory>
#include <vector>

#include "nmt/core/arena.h"
#include "nmt/core/buffer.h"
#include "nmt/ops/cuda/handles.h"

namespace babelring::cuda {

/// Copies between host and device through pinned memory, in the order of a stream's work, without making the host wait
/// for the stream.
class PinnedStaging {
 public:
  /// The stream must outlive the object.
  explicit PinnedStaging(const Stream& stream);

  /// Copies to the device. The caller may change `host` after the call. Waits only if block_bytes * blocks bytes have
  /// not been copied yet. Returns false and does nothing if `bytes` exceeds block_bytes.
  bool upload(void* device, const void* host, std::size_t bytes);
  static constexpr std::size_t block_bytes = std::size_t{2} << 20, blocks = 4;

  /// Starts copying `count` floats from the device. The values are valid after the next deliver().
  std::shared_ptr<const std::vector<float>> fetch(const void* device, std::size_t count);
  /// Fills the fetched values. The stream must have finished its work.
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
  std::array<Block, blocks> ring_;  // allocated at first use
  std::size_t block_ = 0, offset_ = 0;
  Arena fetched_into_;
  std::vector<Fetch> fetches_;
};

}  // namespace babelring::cuda
