#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "base/result.h"
#include "nmt/data/byte_source.h"

namespace babelring {

/// A line as it stood in a file, without its line end.
struct RawLine {
  std::string text;         // at most LineReader::longest_bytes; the rest of an over-long line is dropped
  std::int64_t number = 0;  // from 1
  bool crlf = false;        // ended in CR LF; the CR is not part of the text
  bool over_long = false;
};

/// Reads lines of a plain or gzipped file (told apart by content), a buffer at a time. A UTF-8 byte order mark at the
/// beginning is skipped; a last line without line end is a line.
class LineReader {
 public:
  static constexpr std::size_t longest_bytes = 1 << 20;

  /// Throws Failure (file, system error).
  explicit LineReader(std::filesystem::path file);
  /// Reads `descriptor`, which the caller owns; messages call it `name`. Each line is given as soon as it is there.
  LineReader(int descriptor, std::string name);

  /// False at the end of the file. The Error names the file, the last good line, and what is wrong after it: a read
  /// error, or a damaged or truncated gzip stream.
  Result<bool> read(RawLine& line);
  /// The same, but throws Failure instead of returning an Error.
  bool next(RawLine& line) { return read(line).value(); }

  const std::filesystem::path& file() const { return file_; }
  /// Lines read so far.
  std::int64_t lines() const { return lines_; }

 private:
  Result<bool> fill();
  std::filesystem::path file_;
  ByteSource source_;
  std::vector<char> buffer_;
  std::size_t at_ = 0, end_ = 0;  // of `buffer_`, what is not used yet
  bool begun_ = false;            // the byte-order mark was looked for
  std::int64_t lines_ = 0;
};

/// All lines of a plain or gzipped text. Throws Failure (file and line) where one is no valid UTF-8 or over-long.
std::vector<std::string> read_text_lines(const std::filesystem::path& file);

}  // namespace babelring
