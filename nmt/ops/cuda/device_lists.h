#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "nmt/core/buffer.h"
#include "nmt/ops/cuda/pinned_staging.h"
#include "nmt/ops/cuda/repeat_values.h"

namespace babelring::cuda {

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
