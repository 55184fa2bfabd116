#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "nmt/core/buffer.h"
#include "nmt/ops/cuda/handles.h"

namespace babelring::cuda {

/// Copies on the device of short lists that ops have on the host: offsets of sentences, places of keys. The layers of a
/// pass ask for the same few again and again, so the last ones are kept.
class DeviceLists {
 public:
  /// `stream` runs every kernel that reads the copies; it must outlive the object.
  explicit DeviceLists(const Stream& stream) : stream_(stream.get()), kept_(most_kept) {}

  /// The list on the device; valid until so many others were asked for.
  const std::int32_t* on_device(std::span<const std::int32_t> list);
  static constexpr std::size_t most_kept = 16;

 private:
  struct Kept {
    std::vector<std::int32_t> list;
    Buffer copy;
    std::int64_t last_use = -1;  // -1: never
  };
  cudaStream_t stream_;
  std::vector<Kept> kept_;
  std::int64_t uses_ = 0;
};

}  // namespace babelring::cuda
