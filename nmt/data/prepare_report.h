#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"

namespace babelring {

/// What can be wrong with a pair of lines. All but `crlf` drop the pair; a CR before the line end is only removed.
enum class Finding {
  over_long_line,
  control_byte,
  invalid_utf8,
  empty,
  too_short,
  too_long,
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

/// Counts with a few examples each: what happened to one set.
class PrepareReport {
 public:
  static constexpr std::size_t examples_kept = 5;

  struct Entry {
    std::int64_t count = 0;
    std::vector<std::string> examples;  // "file:line: excerpt"
  };

  explicit PrepareReport(std::string set) : set_(std::move(set)) {}

  /// Counts a finding; while examples are few, keeps file, line and the beginning of the text (escaped).
  void add(Finding finding, std::string_view file, std::int64_t line, std::string_view text);
  void add(Finding finding, std::string_view place, std::string_view text);
  void add_read() { ++read_; }
  void add_kept() { ++kept_; }
  /// A pair counted as kept was dropped after all.
  void remove_kept() { --kept_; }

  /// Pieces of one side of the pairs kept.
  struct Pieces {
    std::int64_t all = 0, unknown = 0;
  };
  void add_pieces(const Pieces& source, const Pieces& target);
  const Pieces& source_pieces() const { return source_; }
  const Pieces& target_pieces() const { return target_; }

  std::int64_t read() const { return read_; }
  std::int64_t kept() const { return kept_; }
  const Entry& operator[](Finding finding) const { return entries_[static_cast<std::size_t>(finding)]; }

  json::object to_json() const;
  /// Counts in one line: "identical 2, ratio 1"; empty if nothing was found.
  std::string summary() const;
  /// Lines for a person: counts, pieces and how many of them are <unk>, and under each finding its examples.
  std::string table() const;

 private:
  std::string set_;
  std::int64_t read_ = 0, kept_ = 0;
  Pieces source_, target_;
  std::array<Entry, finding_count> entries_;
};

}  // namespace babelring
