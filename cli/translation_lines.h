#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "nmt/data/line_reader.h"
#include "nmt/decode/markup.h"
#include "nmt/decode/translator.h"

namespace babelring {

/// Action on a line that cannot be translated as it is: fail; or replace each byte that is not valid UTF-8 by U+FFFD,
/// and cut a line of more than LineReader::longest_bytes to kept_bytes.
enum class Invalid { fail, replace };

/// Reads a text to translate in batches of lines, from a file or standard input, plain or compressed. Skips a
/// byte-order mark.
class TranslationInput {
 public:
  /// The bytes that are left of a line that is cut. 64 KiB is about ten thousand words, more than any text has in a
  /// line. The search through a mebibyte of what is no text would take minutes.
  static constexpr std::size_t kept_bytes = std::size_t{1} << 16;

  /// `name` is a file, or - for standard input. Throws Failure if the file cannot be opened.
  /// `markup`: the form of its lines; without one, tags are warned of.
  TranslationInput(const std::string& name, Invalid invalid, MarkupForm markup = MarkupForm::none);

  /// Returns up to `count` lines; empty at the end of the input. Errors are read errors, damaged compressed data and,
  /// unless they are replaced, invalid bytes and lines longer than LineReader::longest_bytes. The lines before an error
  /// are returned first; the next call throws Failure naming file and line.
  std::vector<std::string> next(std::int64_t count);

  const std::string& name() const { return name_; }
  /// Passes over the next lines, without errors but those of reading.
  void skip(std::int64_t count);

  /// Lines so far that were cut or in which bytes were replaced; one with both counts twice.
  std::int64_t repaired_lines() const { return replaced_lines_ + cut_lines_; }
  /// Logs the numbers of replaced bytes and of lines that were cut, and the first such line, if any.
  void warn_of_replaced() const;

 private:
  bool take(std::string& line);
  std::optional<std::string> fault_of_line() const;
  void repair_line();
  std::string name_;
  Invalid invalid_;
  MarkupForm markup_;
  LineReader reader_;
  RawLine raw_;
  std::optional<std::string> fault_;
  std::int64_t replaced_bytes_ = 0, replaced_lines_ = 0, first_replaced_ = 0;
  std::int64_t cut_lines_ = 0, first_cut_ = 0;
};

/// Counts lines that were split or cut, and logs a warning for each line that was split inside a sentence.
class LineCounts {
 public:
  explicit LineCounts(const TranslateOptions& options) : max_pieces_(options.max_source_pieces) {}

  void add(std::int64_t number, const Translation& translation);
  void report() const;

 private:
  std::int64_t max_pieces_;
  std::int64_t long_ = 0, split_ = 0, cut_ = 0, first_cut_ = 0, terms_ = 0, missed_ = 0;
};

}  // namespace babelring
