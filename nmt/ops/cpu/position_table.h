#pragma once

#include <cstdint>

#include "nmt/core/buffer.h"

namespace babelring::cpu {

/// The sinusoids of EmbeddingForward, kept from call to call: P(p)[2i] = sin(p / 10000^(2i/width)), P(p)[2i+1] =
/// cos(the same). For one width at a time.
class PositionTable {
 public:
  /// [at least `positions`, width], valid until the next call. Values do not depend on the number of positions.
  const float* values(std::int64_t positions, std::int64_t width, int threads);

 private:
  Buffer buffer_;
  std::int64_t positions_ = 0, width_ = 0;
};

}  // namespace babelring::cpu
