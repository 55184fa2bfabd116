#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "nmt/core/buffer.h"
#include "nmt/core/random.h"
#include "nmt/ops/cuda/pinned_staging.h"

namespace babelring::cuda {

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

  /// Where kernels find the list. Equal lists share a place.
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

}  // namespace babelring::cuda
