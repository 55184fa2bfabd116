#pragma once

#include <cstddef>
#include <filesystem>
#include <memory>
#include <span>
#include <string_view>

#include "base/result.h"

namespace babelring {

/// Reads the bytes of a file or file descriptor. Detects data of gzip, xz, zstd and bzip2 by content and decompresses
/// it, one member (stream, frame) after another. Zeros after the last member are padding; anything else there is an
/// error. Reads no further ahead than a call needs, so a line typed at a terminal is available as soon as it is
/// complete. Memory: 512 KiB, and up to 256 MiB for the window of xz, 128 MiB for that of zstd; data that needs more is
/// an error.
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
  /// or the defect of the compressed data, but not the file name.
  Result<std::size_t> read(std::span<char> room);

  /// The first `bytes` bytes of the data, fewer only at its end or before an error; the next read() returns them again.
  /// Must come before the first read().
  std::string_view look(std::size_t bytes);

  /// "gzip", "xz", "zstd" or "bzip2"; empty for other data, and before the first read.
  std::string_view compression() const;

  /// The same of data that begins with `start`.
  static std::string_view compression_of(std::string_view start);
  /// True if `start` is too short to tell.
  static bool may_be_compressed(std::string_view start);

 private:
  struct State;
  Status refill();
  Status detect();
  Result<bool> begin_member();
  Result<std::size_t> unpack(std::span<char> room);
  Result<std::size_t> read_data(std::span<char> room);
  std::unique_ptr<State> state_;
};

}  // namespace babelring
