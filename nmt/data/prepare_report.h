#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"

namespace babelring {

/// Reasons to drop a pair of lines. `crlf` does not drop it; only the CR is removed.
enum class Finding {
  over_long_line,
  control_byte,
  invalid_utf8,
  empty,
  too_short,
  too_long,
  long_word,
  ratio,
  identical,
  duplicate,
  held_out,
  too_many_pieces,
  too_many_unknown,
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

  explicit PrepareReport(std::string set) : set_(std::move(set)) {}

  /// Counts a finding. Stores the first few as examples with file, line and the start of the text (escaped).
  void add(Finding finding, std::string_view file, std::int64_t line, std::string_view text);
  void add(Finding finding, std::string_view place, std::string_view text);
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
  std::string set_;
  std::int64_t read_ = 0, kept_ = 0;
  Pieces source_, target_;
  Entry changed_;
  std::array<Entry, finding_count> entries_;
};

}  // namespace babelring
