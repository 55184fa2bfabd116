#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "nmt/core/buffer.h"
#include "nmt/core/random.h"
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

/// Values that differ between repeats of the same work: lists of sentences, dropout keys, the gradient's scale. While
/// it is active, ops put such values here, and their kernels read them from one block of device memory. The same calls
/// with values of the same sizes get the same places, so a recording is repeated with other values by writing the
/// block.
class RepeatValues {
 public:
  /// `staging` must outlive the object.
  explicit RepeatValues(PinnedStaging& staging) : staging_(staging) {}

  /// Begins with no values.
  void begin();
  void end() { active_ = false; }
  bool active() const { return active_; }

  /// Where kernels find the list. Equal lists have one place.
  const std::int32_t* list(std::span<const std::int32_t> list);
  /// The key in the form that kernels take.
  DropoutKey key(DropoutKey key);
  const float* number(float number);

  /// Whether all values have places in the block; if not, it is replaced by a larger one.
  bool fit();
  /// How often the block was replaced: places given out before are gone.
  std::int64_t moves() const { return moves_; }
  /// Writes the values, in the order of the stream's work.
  void upload(cudaStream_t stream);

 private:
  struct List {
    std::size_t place, elements;
  };
  const std::byte* put(const void* value, std::size_t bytes);

  PinnedStaging& staging_;
  bool active_ = false;
  std::vector<std::byte> values_;
  std::vector<List> lists_;
  Buffer block_;
  std::int64_t moves_ = 0;
};

/// The elements of an i32 tensor in host memory.
inline std::span<const std::int32_t> host_list(const ConstTensor& list) {
  return {list.as<std::int32_t>(), static_cast<std::size_t>(list.shape.elements())};
}

/// Device copies of short lists that ops have in host memory: offsets of sentences, positions of keys. The layers of a
/// pass use the same few lists, so the most recent copies are kept.
class DeviceLists {
 public:
  /// `staging` must belong to `stream`, which must run every kernel that reads the copies. While `values` is active,
  /// lists are stored there. All must outlive the object.
  DeviceLists(const Stream& stream, PinnedStaging& staging, RepeatValues& values)
      : stream_(stream.get()), staging_(staging), values_(values), kept_(max_kept) {}

  /// The device copy of the list; valid until max_kept other lists have been requested.
  const std::int32_t* on_device(std::span<const std::int32_t> list);
  static constexpr std::size_t max_kept = 16;

 private:
  struct Kept {
    std::vector<std::int32_t> list;
    Buffer copy;
    std::int64_t last_use = -1;  // -1: never
  };
  cudaStream_t stream_;
  PinnedStaging& staging_;
  RepeatValues& values_;
  std::vector<Kept> kept_;
  std::int64_t uses_ = 0;
};

}  // namespace babelring::cuda
