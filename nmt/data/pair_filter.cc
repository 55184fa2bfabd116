#include "nmt/data/pair_filter.h"

#include <cld2/public/compact_lang_det.h>
#include <cld2/public/encodings.h>
#include <fmt/format.h>
#include <spdlog/spdlog.h>
#include <unicode/uchar.h>
#include <unicode/uscript.h>

#include <algorithm>
#include <array>
#include <iterator>
#include <utility>

#include "base/failure.h"
#include "base/text.h"
#include "nmt/data/text.h"

namespace babelring {

namespace {

constexpr std::uint64_t source_seed = 1, target_seed = 2, near_seed = 3;

template <typename Action>
void for_each_code(std::string_view text, Action&& action) {
  for (std::size_t place = 0; place < text.size();) action(next_character(text, place));
}

/// The script of a letter; common if it is none, or of several scripts.
UScriptCode script_of(UChar32 c) {
  if (c < 0x80) return (c | 0x20) >= 'a' && (c | 0x20) <= 'z' ? USCRIPT_LATIN : USCRIPT_COMMON;
  UErrorCode error = U_ZERO_ERROR;
  return u_isalpha(c) ? uscript_getScript(c, &error) : USCRIPT_COMMON;
}

/// Scripts that are written together.
using ScriptSet = std::vector<UScriptCode>;

const std::vector<std::pair<std::string_view, ScriptSet>>& joint_scripts() {
  static const std::vector<std::pair<std::string_view, ScriptSet>> sets = {
      {"jpan", {USCRIPT_HAN, USCRIPT_HIRAGANA, USCRIPT_KATAKANA}},
      {"kore", {USCRIPT_HANGUL, USCRIPT_HAN}},
      {"hans", {USCRIPT_HAN, USCRIPT_BOPOMOFO}},
      {"hant", {USCRIPT_HAN, USCRIPT_BOPOMOFO}}};
  return sets;
}

/// Empty if there is no such script.
ScriptSet script_set(const std::string& name) {
  for (const auto& [joint, set] : joint_scripts()) {
    if (lower(name) == joint) return set;
  }
  const std::int32_t code = u_getPropertyValueEnum(UCHAR_SCRIPT, name.c_str());
  return code > USCRIPT_INHERITED ? ScriptSet{static_cast<UScriptCode>(code)} : ScriptSet{};
}

double fraction_in(std::string_view text, const ScriptSet& set) {
  std::int64_t letters = 0, inside = 0;
  for_each_code(text, [&](UChar32 c) {
    const UScriptCode script = script_of(c);
    if (script <= USCRIPT_INHERITED) return;
    ++letters;
    inside += std::find(set.begin(), set.end(), script) != set.end() ? 1 : 0;
  });
  return letters == 0 ? 1 : static_cast<double>(inside) / static_cast<double>(letters);
}

/// A letter or a mark on one.
bool is_letter(UChar32 c) {
  return u_isalpha(c) || (U_GET_GC_MASK(c) & U_GC_M_MASK) != 0;
}

/// CLD2's name of a language: it has old codes of some.
CLD2::Language language_of(const std::string& code) {
  static constexpr std::array<std::pair<std::string_view, std::string_view>, 4> old = {
      {{"he", "iw"}, {"nb", "no"}, {"jv", "jw"}, {"fil", "tl"}}};
  const auto known = [](const std::string& name) { return CLD2::GetLanguageFromName(name.c_str()); };
  std::string name = code;
  std::replace(name.begin(), name.end(), '_', '-');
  if (known(name) != CLD2::UNKNOWN_LANGUAGE) return known(name);
  name = lower(name.substr(0, name.find('-')));
  const auto* found = std::find_if(old.begin(), old.end(), [&](const auto& pair) { return pair.first == name; });
  return known(found != old.end() ? std::string(found->second) : name);
}

/// True if CLD2 is sure that a text is in another language. It is told the one that is expected: without that it takes
/// 0.1 % of clean English and 0.4 to 0.9 % of short clean German for another language, with it at most 0.15 %, of
/// Tatoeba (news: 0.1 %), and it still finds 94 (Tatoeba) to 99.8 % of lines of the other side.
bool is_other_language(const std::string& text, const std::string& expected) {
  const CLD2::Language language = language_of(expected);
  const CLD2::CLDHints hints{nullptr, nullptr, CLD2::UNKNOWN_ENCODING, language};
  std::array<CLD2::Language, 3> languages{};
  std::array<int, 3> percent{};
  std::array<double, 3> scores{};
  int bytes = 0, valid = 0;
  bool reliable = false;
  const CLD2::Language found = CLD2::ExtDetectLanguageSummaryCheckUTF8(
      text.data(), static_cast<int>(text.size()), true, &hints, 0, languages.data(), percent.data(), scores.data(),
      nullptr, &bytes, &reliable, &valid);
  return reliable && found != CLD2::UNKNOWN_LANGUAGE && found != language;
}

/// The fraction of the numbers of the side with more that the other has, too; 1 if a side has none: numbers are
/// written in words as well.
double common_numbers(const std::string& source, const std::string& target) {
  const std::vector<std::string> one = numbers_of(source), two = numbers_of(target);
  if (one.empty() || two.empty()) return 1;
  std::vector<std::string> both;
  std::set_intersection(one.begin(), one.end(), two.begin(), two.end(), std::back_inserter(both));
  return static_cast<double>(both.size()) / static_cast<double>(std::max(one.size(), two.size()));
}

/// The characters of a host or of a mail address before its @.
bool is_address_character(char c) {
  return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || c == '.' || c == '-' || c == '_' || c == '+';
}

}  // namespace

struct PairFilter::Scripts {
  struct Side {
    ScriptSet set;
    std::map<UScriptCode, std::int64_t> letters;

    void count(std::string_view text) {
      for_each_code(text, [&](UChar32 c) { ++letters[script_of(c)]; });
    }
    /// The script of most letters, with those that are written with it.
    std::string choose() {
      letters.erase(USCRIPT_COMMON);
      letters.erase(USCRIPT_INHERITED);
      // Text in Japanese is half in Kana (nmt/data/text.h, count_words()); names in Chinese have some.
      const std::int64_t kana = letters[USCRIPT_HIRAGANA] + letters[USCRIPT_KATAKANA], han = letters[USCRIPT_HAN];
      if (5 * kana > han) letters[USCRIPT_KATAKANA_OR_HIRAGANA] = kana + han;
      const auto most = std::max_element(letters.begin(), letters.end(),
                                         [](const auto& a, const auto& b) { return a.second < b.second; });
      const bool none = most == letters.end() || most->second == 0;
      std::string name = none                                          ? ""
                         : most->first == USCRIPT_KATAKANA_OR_HIRAGANA ? "Jpan"
                         : most->first == USCRIPT_HANGUL               ? "Kore"
                                                                       : uscript_getShortName(most->first);
      set = script_set(name);
      return name;
    }
    double fraction(std::string_view text) const { return set.empty() ? 1 : fraction_in(text, set); }
  };
  Side source, target;
  bool learning = true;
  std::int64_t pairs = 0;
  std::size_t bytes = 0;
};

bool is_script_name(const std::string& name) {
  return !script_set(name).empty();
}

bool is_identifiable(const std::string& language) {
  return language_of(language) != CLD2::UNKNOWN_LANGUAGE;
}

PairFilter::PairFilter(const FilterOptions& options) : options_(options) {
  for (const std::string& language : {options.source_language, options.target_language}) {
    if (options.identify && !is_identifiable(language)) fail("no language '{}' that can be identified", language);
  }
  if (options.min_script <= 0) return;
  scripts_ = std::make_unique<Scripts>();
  if (options.scripts.empty()) return;
  for (const std::string& name : options.scripts) {
    if (!is_script_name(name)) fail("no script '{}'", name);
  }
  scripts_->source.set = script_set(options.scripts.at(0));
  scripts_->target.set = script_set(options.scripts.at(1));
  scripts_->learning = false;
}

PairFilter::~PairFilter() = default;

bool PairFilter::is_learning() const {
  return scripts_ && scripts_->learning;
}

void PairFilter::learn(std::string_view source, std::string_view target) {
  constexpr std::int64_t max_pairs = 1000;
  constexpr std::size_t max_bytes = 1 << 20;
  scripts_->source.count(source);
  scripts_->target.count(target);
  scripts_->bytes += source.size() + target.size();
  if (++scripts_->pairs >= max_pairs || scripts_->bytes >= max_bytes) finish_learning();
}

void PairFilter::finish_learning() {
  if (!is_learning()) return;
  scripts_->learning = false;
  const std::string source = scripts_->source.choose(), target = scripts_->target.choose();
  spdlog::info("scripts of most letters of the first {} pairs: {} and {}", scripts_->pairs, source, target);
}

void PairFilter::hold_out(std::string_view source, std::string_view target) {
  held_out_.insert(hash_text(comparable(source), source_seed));
  held_out_.insert(hash_text(comparable(target), target_seed));
}

std::optional<Finding> PairFilter::judge_content(const std::string& source, const std::string& target) const {
  if (scripts_ &&
      std::min(scripts_->source.fraction(source), scripts_->target.fraction(target)) < options_.min_script) {
    return Finding::other_script;
  }
  if (options_.max_symbols < 1 && std::max(symbol_fraction(source), symbol_fraction(target)) > options_.max_symbols) {
    return Finding::symbols;
  }
  if (options_.max_repeated > 0 && std::max(longest_run(source), longest_run(target)) > options_.max_repeated) {
    return Finding::repeated;
  }
  if (options_.min_numbers > 0 && common_numbers(source, target) < options_.min_numbers) return Finding::numbers;
  if (options_.same_addresses && addresses_of(source) != addresses_of(target)) return Finding::addresses;
  if (options_.drop_near_identical && source != target && skeleton(source) == skeleton(target)) {
    return Finding::near_identical;
  }
  if (options_.identify &&
      (is_other_language(source, options_.source_language) || is_other_language(target, options_.target_language))) {
    return Finding::other_language;
  }
  return std::nullopt;
}

std::optional<Finding> PairFilter::judge(std::string_view raw_source, std::string_view raw_target) {
  const std::string source = comparable(raw_source), target = comparable(raw_target);
  const std::int64_t source_words = count_words(source), target_words = count_words(target);
  const auto [shorter, longer] = std::minmax(source_words, target_words);
  if (shorter < options_.min_words) return Finding::too_short;
  if (longer > options_.max_words) return Finding::too_long;
  if (std::max(longest_word(source), longest_word(target)) > options_.max_word_length) return Finding::long_word;
  if (static_cast<double>(longer) > options_.max_ratio * static_cast<double>(shorter)) return Finding::ratio;
  if (!options_.keep_identical && source == target) return Finding::identical;
  if (const auto finding = judge_content(source, target)) return finding;
  const std::uint64_t source_hash = hash_text(source, source_seed), target_hash = hash_text(target, target_seed);
  if (!options_.keep_held_out && (held_out_.contains(source_hash) || held_out_.contains(target_hash))) {
    return Finding::held_out;
  }
  if (!options_.keep_duplicates && !seen_.insert(hash_text(target, source_hash)).second) return Finding::duplicate;
  if (options_.drop_near_duplicates &&
      !near_.insert(hash_text(skeleton(target), hash_text(skeleton(source), near_seed))).second) {
    return Finding::near_duplicate;
  }
  return std::nullopt;
}

std::vector<std::string> numbers_of(std::string_view text) {
  struct Digits {
    std::string digits;
    bool joined = false;  // to the group before
  };
  constexpr std::string_view separators = ".,' ";
  std::vector<Digits> groups;
  bool inside = false;        // of digits
  std::size_t between = 100;  // separators since the last group; 100: other characters
  for_each_code(text, [&](UChar32 c) {
    const std::int32_t digit = u_charDigitValue(c);
    if (digit >= 0) {
      if (!inside) groups.push_back({"", between == 1});
      groups.back().digits += static_cast<char>('0' + digit);
      inside = true;
      return;
    }
    const bool separates = c < 0x80 && separators.find(static_cast<char>(c)) != std::string_view::npos;
    between = !separates ? 100 : inside ? 1 : between + 1;
    inside = false;
  });
  std::vector<std::string> numbers;
  std::size_t first_digits = 0;  // of the first group of the last number; 0: no group may be joined to it
  for (const Digits& group : groups) {
    if (group.joined && group.digits.size() == 3 && first_digits >= 1 && first_digits <= 3) {
      numbers.back() += group.digits;
      continue;
    }
    numbers.push_back(group.digits);
    first_digits = group.digits.size();
  }
  for (std::string& number : numbers) number.erase(0, std::min(number.find_first_not_of('0'), number.size() - 1));
  std::sort(numbers.begin(), numbers.end());
  return numbers;
}

std::vector<std::string> addresses_of(std::string_view text) {
  if (text.find("://") == std::string_view::npos && text.find('@') == std::string_view::npos &&
      text.find("www.") == std::string_view::npos && text.find("WWW.") == std::string_view::npos) {
    return {};
  }
  const std::string small = lower(text);
  std::vector<std::string> found;
  const auto host_at = [&](std::size_t from) {
    std::size_t end = from;
    while (end < small.size() && is_address_character(small[end])) ++end;
    while (end > from && (small[end - 1] == '.' || small[end - 1] == '-')) --end;  // of the sentence
    std::string host = small.substr(from, end - from);
    return host.starts_with("www.") ? host.substr(4) : host;
  };
  const auto add = [&](const std::string& before, const std::string& host) {
    if (host.find('.') != std::string::npos) found.push_back(before + host);
  };
  for (std::size_t at = small.find("://"); at != std::string::npos; at = small.find("://", at + 3))
    add("", host_at(at + 3));
  for (std::size_t at = small.find("www."); at != std::string::npos; at = small.find("www.", at + 4))
    add("", host_at(at));
  for (std::size_t at = small.find('@'); at != std::string::npos; at = small.find('@', at + 1)) {
    std::size_t first = at;
    while (first > 0 && is_address_character(small[first - 1])) --first;
    if (first < at) add(small.substr(first, at + 1 - first), host_at(at + 1));
  }
  std::sort(found.begin(), found.end());
  found.erase(std::unique(found.begin(), found.end()), found.end());
  return found;
}

double symbol_fraction(std::string_view text) {
  std::int64_t visible = 0, letters = 0;
  for_each_code(text, [&](UChar32 c) {
    visible += u_isUWhiteSpace(c) ? 0 : 1;
    letters += is_letter(c) ? 1 : 0;
  });
  return visible == 0 ? 0 : static_cast<double>(visible - letters) / static_cast<double>(visible);
}

std::int64_t longest_run(std::string_view text) {
  std::int64_t longest = 0, run = 0;
  UChar32 last = 0;
  for_each_code(text, [&](UChar32 c) {
    run = c == last ? run + 1 : 1;
    last = c;
    if (!u_isUWhiteSpace(c)) longest = std::max(longest, run);
  });
  return longest;
}

std::string skeleton(std::string_view text) {
  std::string out;
  bool digits = false;
  for_each_code(text, [&](UChar32 c) {
    const bool digit = u_charDigitValue(c) >= 0;
    if (digit && !digits) out += '0';
    digits = digit;
    if (!digit && is_letter(c)) append_character(out, static_cast<std::uint32_t>(u_foldCase(c, U_FOLD_CASE_DEFAULT)));
  });
  return out;
}

double script_fraction(std::string_view text, const std::string& script) {
  return fraction_in(text, script_set(script));
}

}  // namespace babelring
