#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

namespace babelring {

/// How the output loss divides the rows of a pass: the logits of one chunk are in memory at a time. The projection's
/// gradient is summed chunk by chunk, so that its rounding depends on the chunks.
struct LossChunks {
  std::int64_t bytes = std::int64_t{160} << 20;  // of a chunk's logits at most, unless min_rows need more
  std::int64_t min_rows = 256;
  bool equal = false;  // chunks of equal size; false: full chunks and a shorter last one

  /// For a device with `memory_bytes` in all: 2 GiB, or a 32nd of its memory where that is less. A larger chunk gives
  /// the products more tiles to share among the multiprocessors, and fewer chunks read and write the projection's
  /// gradient. Depends on the card alone, not on what is free, so that a run repeats bit by bit.
  static constexpr LossChunks on_device(std::size_t memory_bytes) {
    constexpr std::size_t max_bytes = std::size_t{2} << 30;
    const auto share = static_cast<std::int64_t>(std::min(max_bytes, memory_bytes / 32));
    return {.bytes = std::max(LossChunks().bytes, share), .equal = true};
  }

  /// The most rows of a chunk, for logits of `row_bytes` a row.
  constexpr std::int64_t max_rows(std::int64_t row_bytes) const { return std::max(min_rows, bytes / row_bytes); }

  /// Rows of every chunk but the last, which has at most as many, of a pass over `rows` rows.
  constexpr std::int64_t chunk_rows(std::int64_t rows, std::int64_t row_bytes) const {
    const std::int64_t most = max_rows(row_bytes);
    if (!equal) return most;
    const std::int64_t chunks = std::max<std::int64_t>(1, (rows + most - 1) / most);
    return (rows + chunks - 1) / chunks;
  }
};

}  // namespace babelring
