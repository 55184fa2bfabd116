#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_set>
#include <vector>

#include "nmt/data/prepare_report.h"

namespace babelring {

/// Each limit holds for both sides. Counts below are of this project's real text: Tatoeba (164,599 pairs), Europarl v7
/// (20,000), news test sets 2008 to 2016 (22,073), Multi30k (29,000), all clean, and OpenNMT's sample of WMT (9,999),
/// of which a third comes from the web.
struct FilterOptions {
  std::int64_t min_words = 1, max_words = 250;  // on either side, as count_words() counts
  std::int64_t max_word_length = 1000;          // characters, of the longest_word(); Moses' default
  double max_ratio = 5;                         // max ratio of the longer side to the shorter, in words
  bool keep_identical = false;
  bool keep_duplicates = false;
  bool keep_held_out = false;

  // Off by default, as each also drops sound pairs.
  double min_script = 0;                         // min fraction of letters in the script of the side; 0: off
  std::vector<std::string> scripts;              // of source and target, as is_script_name(); empty: as they begin
  bool identify = false;                         // drop a side that CLD2 takes for another language than `languages`
  std::string source_language, target_language;  // codes, as language_of()
  double max_symbols = 1;                        // max fraction of visible characters that are no letters; 1: off
  std::int64_t max_repeated = 0;                 // max run of one visible character; 0: off
  double min_numbers = 0;                        // min fraction of the numbers of a pair on both sides; 0: off
  bool same_addresses = false;                   // web and mail addresses
  bool drop_near_identical = false;              // as skeleton()
  bool drop_near_duplicates = false;             // as skeleton(), digits without difference
};

/// Whether `name` is a script's code or name in Unicode (Latn, Cyrillic), or one of Jpan, Kore, Hans, Hant.
bool is_script_name(const std::string& name);
/// Whether CLD2 can identify the language with this code: "de", "pt-BR", "zh-Hant".
bool is_identifiable(const std::string& language);

/// Filters pairs of the training text. Stores a hash of each distinct pair: 8 bytes, about 40 with overhead; as much
/// again to drop near duplicates.
class PairFilter {
 public:
  /// Throws Failure if a script or language is unknown.
  explicit PairFilter(const FilterOptions& options);
  ~PairFilter();
  PairFilter(const PairFilter&) = delete;
  PairFilter& operator=(const PairFilter&) = delete;

  /// Registers a held-out pair. Training pairs that share either side (as comparable()) are dropped, unless
  /// keep_held_out is set.
  void hold_out(std::string_view source, std::string_view target);

  /// True as long as the filter needs pairs to learn() the scripts of the sides, before it judges: 1,000 pairs or a
  /// MiB.
  bool is_learning() const;
  void learn(std::string_view source, std::string_view target);
  /// Ends the learning also if there were fewer pairs.
  void finish_learning();

  /// The reason to drop a pair; none if it is kept. Looks at its sides as comparable().
  std::optional<Finding> judge(std::string_view source, std::string_view target);

 private:
  struct Scripts;
  std::optional<Finding> judge_content(const std::string& source, const std::string& target) const;

  FilterOptions options_;
  std::unordered_set<std::uint64_t> seen_, held_out_, near_;
  std::unique_ptr<Scripts> scripts_;  // null: not judged
};

/// Numbers of a comparable() text, in order of their text: digits of any script as 0 to 9, without leading zeros and
/// without what separates groups of three ("53,000", "53.000", "53 000" are "53000"). Decimals are two numbers.
std::vector<std::string> numbers_of(std::string_view text);
/// The hosts of web addresses (without "www.") and mail addresses of a text, each once, in order.
std::vector<std::string> addresses_of(std::string_view text);
/// Fraction of visible characters of a text that are neither letters nor their marks; 0 of an empty text.
double symbol_fraction(std::string_view text);
/// The length of the longest run of one visible character.
std::int64_t longest_run(std::string_view text);
/// The letters of a text without case, and a 0 for each run of digits.
std::string skeleton(std::string_view text);
/// Fraction of the letters of a text that are in a script, as is_script_name(); 1 if there are none.
double script_fraction(std::string_view text, const std::string& script);

}  // namespace babelring
