#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "nmt/data/byte_source.h"

namespace babelring {

/// A line of a file, without its line end.
struct RawLine {
  std::string text;         // truncated to LineReader::longest_bytes
  std::int64_t number = 0;  // from 1
  bool crlf = false;        // the line ended in CR LF; `text` excludes the CR
  bool over_long = false;
};

/// Reads the lines of a file in blocks, plain or compressed as ByteSource knows. Skips a UTF-8 byte order mark at the
/// start. The last line may lack a line end. Data that begins as that of another compressor or archive, or as UTF-16 or
/// UTF-32, is an error that names it.
class LineReader {
 public:
  static constexpr std::size_t longest_bytes = 1 << 20;

  /// Throws Failure (file, system error).
  explicit LineReader(const std::filesystem::path& file);
  /// Reads from `descriptor`, which the caller owns. `name` is for messages. Each line is returned as soon as it is
  /// complete.
  LineReader(int descriptor, std::string name);
  /// Reads from a source of which nothing was read. `name` is for messages.
  LineReader(std::unique_ptr<ByteSource> source, std::filesystem::path name);

  /// Reads the next line; returns false at the end of the file. The Error names the file, the last good line and the
  /// cause: a read error, damaged or truncated compressed data, or data that is no text.
  Result<bool> read(RawLine& line);
  /// Like read(), but throws Failure instead of returning an Error.
  bool next(RawLine& line) { return read(line).value(); }

  /// As ByteSource::look(). Must come before the first line is read.
  std::string_view look(std::size_t bytes) { return source_->look(bytes); }

  /// As ByteSource::compression().
  std::string_view compression() const { return source_->compression(); }

  const std::filesystem::path& file() const { return file_; }
  /// Number of lines read so far.
  std::int64_t lines() const { return lines_; }

 private:
  Result<bool> fill();
  Status fill_start();
  std::filesystem::path file_;
  std::unique_ptr<ByteSource> source_;
  std::vector<char> buffer_;
  std::size_t at_ = 0, end_ = 0;  // unread range of `buffer_`
  bool begun_ = false;            // the start was checked for a byte order mark
  std::int64_t lines_ = 0;
};

/// The tag with which one of a file's first lines begins SGML (as of mteval), TMX or other XML: "<srcset"; empty if the
/// line begins none, or is not among the first three. Such a file has tags where a text has sentences.
std::string_view markup_of(const RawLine& line);
/// Throws Failure (file, tag) if there is one.
void refuse_markup(const std::filesystem::path& file, const RawLine& line);

/// Writes lines to a file, which it creates or truncates. All functions throw Failure.
class LineWriter {
 public:
  explicit LineWriter(const std::filesystem::path& file);
  void add(std::string_view line);
  /// Closes the file. Must be called after the last line.
  void finish();

 private:
  void check() const;
  std::filesystem::path file_;
  std::ofstream stream_;
};

/// Reads all lines of a file, plain or compressed. Throws Failure (file and line) if a line is not valid UTF-8 or
/// over-long, or if the file is markup.
std::vector<std::string> read_text_lines(const std::filesystem::path& file);

}  // namespace babelring
