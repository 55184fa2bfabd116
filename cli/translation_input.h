#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "nmt/data/line_reader.h"

namespace babelring {

/// What to do with bytes that are not UTF-8: end there, or replace each by U+FFFD.
enum class Invalid { fail, replace };

/// The lines of a text to translate, in batches: a file or standard input, plain or gzip, a byte-order mark skipped.
class TranslationInput {
 public:
  /// `name` is a file, or - for standard input. Throws Failure if the file cannot be opened.
  TranslationInput(const std::string& name, Invalid invalid);

  /// At most `count` lines; empty at the end. Lines before a fault (invalid bytes, a line over
  /// LineReader::longest_bytes, a read error, damaged gzip data) are given first; the next call then throws Failure
  /// naming file and line.
  std::vector<std::string> next(std::int64_t count);

  /// Says how many bytes were replaced, and where the first was, if any were.
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
