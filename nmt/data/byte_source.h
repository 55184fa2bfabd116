#pragma once

#include <cstddef>
#include <filesystem>
#include <memory>
#include <span>

#include "base/result.h"

namespace babelring {

/// The bytes of a file or an open descriptor, decompressed if they are gzip (told by content). Waits for no more input
/// than one call needs: a line typed at a terminal arrives when it is complete.
class ByteSource {
 public:
  /// Throws Failure (file, system error).
  explicit ByteSource(const std::filesystem::path& file);
  /// Reads `descriptor`, which the caller owns.
  explicit ByteSource(int descriptor);
  ~ByteSource();
  ByteSource(const ByteSource&) = delete;
  ByteSource& operator=(const ByteSource&) = delete;

  /// Writes at least one byte to the front of `room` and returns how many; 0 at the end. The Error says why reading
  /// failed, or what is wrong with the gzip data; it does not name the file.
  Result<std::size_t> read(std::span<char> room);

 private:
  struct State;
  Result<Done> refill();
  Result<bool> is_gzip();
  Result<std::size_t> inflate_into(std::span<char> room);
  std::unique_ptr<State> state_;
};

}  // namespace babelring
