#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

namespace babelring {

/// Chunking of the output loss: only the logits of one chunk of rows are in memory at a time. The projection's gradient
/// is summed over chunks, so its rounding depends on the chunk size.
struct LossChunks {
  std::int64_t bytes = std::int64_t{160} << 20;  // max size of a chunk's logits, unless min_rows rows need more
  std::int64_t min_rows = 256;
  bool equal = false;  // chunks of equal size; false: full chunks and a shorter last one

  /// Chunking for a device with `memory_bytes` of total memory: 2 GiB, or 1/32 of the memory if smaller. Larger chunks
  /// give matmuls more tiles to distribute over the multiprocessors and access the projection's gradient less often.
  /// Depends on total rather than free memory, so that runs are reproducible bit by bit.
  static constexpr LossChunks on_device(std::size_t memory_bytes) {
    constexpr std::size_t max_bytes = std::size_t{2} << 30;
    const auto share = static_cast<std::int64_t>(std::min(max_bytes, memory_bytes / 32));
    return {.bytes = std::max(LossChunks().bytes, share), .equal = true};
  }

  /// Max rows per chunk, for logits of `row_bytes` bytes per row.
  constexpr std::int64_t max_rows(std::int64_t row_bytes) const { return std::max(min_rows, bytes / row_bytes); }

  /// Rows per chunk for a pass over `rows` rows; the last chunk may have fewer.
  constexpr std::int64_t chunk_rows(std::int64_t rows, std::int64_t row_bytes) const {
    const std::int64_t most = max_rows(row_bytes);
    if (!equal) return most;
    const std::int64_t chunks = std::max<std::int64_t>(1, (rows + most - 1) / most);
    return (rows + chunks - 1) / chunks;
  }
};

}  // namespace babelring
