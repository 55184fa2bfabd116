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

/// Two files whose n-th lines belong together.
struct TextFiles {
  std::filesystem::path source, target;
};

enum class Unequal { refuse, truncate };

/// A pair of lines that are valid text: UTF-8, no control bytes, not over-long.
struct TextPair {
  std::string source, target;  // as they stood in the files, without line ends
  std::int64_t line = 0;
};

/// Reads valid pairs of two files, reporting the others by file and line.
class PairReader {
 public:
  /// Throws Failure if a file cannot be opened.
  PairReader(const TextFiles& files, Unequal unequal, PrepareReport& report);

  /// The next valid pair. At the end of one file before the other: throws Failure naming both files and their counts,
  /// or counts the rest as unpaired.
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
  std::int64_t min_words = 1, max_words = 250;  // on either side
  double max_ratio = 5;                         // longer side to shorter, in words
  bool keep_identical = false;
  bool keep_duplicates = false;
  bool keep_held_out = false;
};

/// Decides which pairs of the training text stay. Remembers 8 bytes (some 40 in memory) of each different pair.
class PairFilter {
 public:
  explicit PairFilter(const FilterOptions& options) : options_(options) {}

  /// A training pair with either of these sides (spaces normalised) will be dropped, unless keep_held_out.
  void hold_out(std::string_view source, std::string_view target);

  /// Why a pair (spaces normalised) is dropped, or nothing if it stays.
  std::optional<Finding> judge(std::string_view source, std::string_view target);

 private:
  FilterOptions options_;
  std::unordered_set<std::uint64_t> seen_, held_out_;
};

}  // namespace babelring
