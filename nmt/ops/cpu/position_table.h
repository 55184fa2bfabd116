#pragma once

#include <cstdint>

#include "nmt/core/buffer.h"

namespace babelring::cpu {

/// The sinusoids of EmbeddingForward: P(p)[2i] = sin(p / 10000^(2i/width)), P(p)[2i+1] = cos(p / 10000^(2i/width)).
/// Keeps the table of one width between calls. Not thread-safe.
class PositionTable {
 public:
  /// The table, with at least `positions` rows of `width` floats. Valid until the next call. `threads` threads compute
  /// it.
  const float* values(std::int64_t positions, std::int64_t width, int threads);

 private:
  Buffer buffer_;
  std::int64_t positions_ = 0, width_ = 0;
};

}  // namespace babelring::cpu
