#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_set>

#include "nmt/data/line_reader.h"
#include "nmt/data/prepare_report.h"

namespace babelring {

/// Two line-aligned text files.
struct TextFiles {
  std::filesystem::path source, target;
};

enum class Unequal { refuse, truncate };

/// A pair of valid lines: UTF-8, no control characters, not over-long, something visible on both sides.
struct TextPair {
  std::string source, target;  // unchanged, without line ends
  std::int64_t line = 0;
};

/// Reads the valid pairs of two files and reports invalid ones by file and line.
class PairReader {
 public:
  /// Throws Failure if a file cannot be opened.
  PairReader(const TextFiles& files, Unequal unequal, PrepareReport& report);

  /// Reads the next valid pair; returns false at the end. Throws Failure if a file is markup, and if one file ends
  /// before the other, with both names and line counts; or counts the remaining lines as unpaired (Unequal::truncate).
  bool next(TextPair& pair);

 private:
  std::optional<Finding> check(const LineReader& reader, const RawLine& line);
  void finish(bool source_left, bool target_left);

  LineReader source_, target_;
  RawLine source_line_, target_line_;
  Unequal unequal_;
  PrepareReport& report_;
};

struct FilterOptions {
  std::int64_t min_words = 1, max_words = 250;  // on either side, as count_words() counts
  std::int64_t max_word_length = 1000;          // characters, of the longest_word(); Moses' default
  double max_ratio = 5;                         // max ratio of the longer side to the shorter, in words
  bool keep_identical = false;
  bool keep_duplicates = false;
  bool keep_held_out = false;
};

/// Filters pairs of the training text. Stores a hash of each distinct pair: 8 bytes, about 40 with overhead.
class PairFilter {
 public:
  explicit PairFilter(const FilterOptions& options) : options_(options) {}

  /// Registers a held-out pair. Training pairs that share either side (as comparable()) are dropped, unless
  /// keep_held_out is set.
  void hold_out(std::string_view source, std::string_view target);

  /// The reason to drop a pair; none if it is kept. Looks at its sides as comparable().
  std::optional<Finding> judge(std::string_view source, std::string_view target);

 private:
  FilterOptions options_;
  std::unordered_set<std::uint64_t> seen_, held_out_;
};

}  // namespace babelring
