#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "nmt/data/line_reader.h"

namespace babelring {

/// Action on bytes that are not valid UTF-8: fail, or replace each by U+FFFD.
enum class Invalid { fail, replace };

/// Reads a text to translate in batches of lines, from a file or standard input, plain or gzip. Skips a byte-order
/// mark.
class TranslationInput {
 public:
  /// `name` is a file, or - for standard input. Throws Failure if the file cannot be opened.
  TranslationInput(const std::string& name, Invalid invalid);

  /// Returns up to `count` lines; empty at the end of the input. Errors are invalid bytes, a line longer than
  /// LineReader::longest_bytes, read errors and damaged gzip data. The lines before an error are returned first; the
  /// next call throws Failure naming file and line.
  std::vector<std::string> next(std::int64_t count);

  /// Logs the number of replaced bytes and the first affected line, if any.
  void warn_of_replaced() const;

 private:
  bool take(std::string& line);
  std::string name_;
  Invalid invalid_;
  LineReader reader_;
  RawLine raw_;
  std::optional<std::string> fault_;
  std::int64_t replaced_bytes_ = 0, replaced_lines_ = 0, first_replaced_ = 0;
};

}  // namespace babelring
