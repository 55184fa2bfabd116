#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "nmt/data/line_reader.h"
#include "nmt/data/pair_source.h"

namespace babelring {

/// Reasons to drop a pair of lines. `crlf` does not drop it; only the CR is removed.
enum class Finding {
  too_few_columns,
  untranslated,
  over_long_line,
  control_byte,
  invalid_utf8,
  empty,
  too_short,
  too_long,
  long_word,
  ratio,
  identical,
  other_script,
  symbols,
  repeated,
  numbers,
  addresses,
  near_identical,
  other_language,
  duplicate,
  near_duplicate,
  held_out,
  too_many_pieces,
  too_many_unknown,
  suspect,
  unpaired,
  crlf,
};
inline constexpr std::size_t finding_count = static_cast<std::size_t>(Finding::crlf) + 1;

/// "invalid_utf8".
std::string_view name_of(Finding finding);

/// Counts and examples of one set: dropped pairs, and target lines that the vocabulary changes.
class PrepareReport {
 public:
  static constexpr std::size_t examples_kept = 5, changed_examples_kept = 3;

  struct Entry {
    std::int64_t count = 0;
    std::vector<std::string> examples;  // "file:line: excerpt"
  };

  /// `corpus`: the part of the set, if the parts have names.
  explicit PrepareReport(std::string set, std::string corpus = {}) : set_(std::move(set)), corpus_(std::move(corpus)) {}

  /// "train", or "train, crawl".
  std::string name() const { return corpus_.empty() ? set_ : set_ + ", " + corpus_; }
  /// Adds the counts and examples of a corpus of this set, which then is a part of table() and to_json().
  void add_corpus(const PrepareReport& corpus);

  /// Counts a finding. Stores the first few as examples with file, line and the start of the text (escaped).
  void add(Finding finding, std::string_view file, std::int64_t line, std::string_view text);
  void add(Finding finding, std::string_view place, std::string_view text);
  /// The same with both sides in the example.
  void add_pair(Finding finding, std::string_view place, std::string_view source, std::string_view target);
  void add_read() { ++read_; }
  void add_kept() { ++kept_; }
  /// Undoes add_kept() for a pair dropped later.
  void remove_kept() { --kept_; }

  /// Subword counts of one side of the kept pairs.
  struct Pieces {
    std::int64_t all = 0, unknown = 0;
  };
  void add_pieces(const Pieces& source, const Pieces& target);
  /// Counts a kept target line whose pieces decode to another text. Stores the first few as examples: place of the
  /// source, and both texts around their first difference.
  void add_changed(std::string_view place, std::string_view line, std::string_view decoded);
  const Entry& changed() const { return changed_; }
  const Pieces& source_pieces() const { return source_; }
  const Pieces& target_pieces() const { return target_; }

  std::int64_t read() const { return read_; }
  std::int64_t kept() const { return kept_; }
  const Entry& operator[](Finding finding) const { return entries_[static_cast<std::size_t>(finding)]; }

  json::object to_json() const;
  /// Counts in one line, such as "identical 2, ratio 1"; empty if there are none.
  std::string summary() const;
  /// Options of `nmt prepare` that decide on the findings, such as "--keep-identical, --max-ratio"; empty if none does.
  std::string options() const;
  /// One line for each reason that dropped more than a tenth of the pairs, and one if the vocabulary changes more than
  /// a tenth of the kept target lines. A tenth: filters are set to drop odd pairs, of which a sound corpus has few.
  std::vector<std::string> warnings() const;
  /// A human-readable table: counts, subwords and their fraction of <unk>, and the examples of each finding.
  std::string table() const;

 private:
  std::string set_, corpus_;
  std::vector<PrepareReport> corpora_;
  std::int64_t read_ = 0, kept_ = 0;
  Pieces source_, target_;
  Entry changed_;
  std::array<Entry, finding_count> entries_;

  /// Counts a finding; the entry, if it has room for an example.
  Entry* count(Finding finding);
  std::string described(std::size_t finding) const;
};

/// Two line-aligned text files, or one that holds both sides.
struct TextFiles {
  std::filesystem::path source, target;  // target: empty if `source` holds both sides
};

enum class Unequal { refuse, truncate };

/// A pair of valid lines: UTF-8, no control characters, not over-long, something visible on both sides.
struct TextPair {
  std::string source, target;  // unchanged, without line ends
  std::int64_t line = 0;       // of the source
};

/// Reads the valid pairs of two files, or of one that holds both sides, and reports invalid ones by file and line.
class PairReader {
 public:
  /// Throws Failure if a file cannot be opened, or has a form that does not suit.
  PairReader(const TextFiles& files, const PairChoice& choice, Unequal unequal, PrepareReport& report);

  /// Reads the next valid pair; returns false at the end. Throws Failure as PairSource does, and if one file ends
  /// before the other, with both names and line counts; or counts the remaining lines as unpaired (Unequal::truncate).
  bool next(TextPair& pair);
  /// As PairSource::languages().
  std::string languages() const { return pairs_->languages(); }

 private:
  std::optional<Finding> check(const std::filesystem::path& file, const RawLine& line);
  void finish(PairSource::Next next);

  std::unique_ptr<PairSource> pairs_;
  RawLine source_line_, target_line_;
  Unequal unequal_;
  PrepareReport& report_;
};

}  // namespace babelring
