#pragma once

#include <cstddef>
#include <filesystem>
#include <memory>
#include <span>

#include "base/result.h"

namespace babelring {

/// Reads the bytes of a file or file descriptor. Detects gzip data by content and decompresses it. Zeros after the last
/// gzip member are padding; anything else there is an error. Reads no further ahead than a call needs, so a line typed
/// at a terminal is available as soon as it is complete.
class ByteSource {
 public:
  /// Throws Failure (file, system error).
  explicit ByteSource(const std::filesystem::path& file);
  /// Reads from `descriptor`, which the caller owns.
  explicit ByteSource(int descriptor);
  ~ByteSource();
  ByteSource(const ByteSource&) = delete;
  ByteSource& operator=(const ByteSource&) = delete;

  /// Reads at least one byte into `room` and returns the number of bytes; 0 at the end. The Error holds the read error
  /// or the defect of the gzip data, but not the file name.
  Result<std::size_t> read(std::span<char> room);

 private:
  struct State;
  Status refill();
  Result<bool> is_gzip();
  Status require_padding();
  Result<std::size_t> inflate_into(std::span<char> room);
  std::unique_ptr<State> state_;
};

}  // namespace babelring
