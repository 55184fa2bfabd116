#include "nmt/metrics/tokenizer.h"

#include <fmt/ranges.h>
#include <unicode/locid.h>
#include <unicode/uchar.h>
#include <unicode/unistr.h>
#include <unicode/uscript.h>

#include <algorithm>
#include <utility>

#include "base/failure.h"
#include "base/result.h"

namespace babelring {
namespace {

icu::UnicodeString decode(std::string_view utf8) {
  return icu::UnicodeString::fromUTF8(icu::StringPiece(utf8.data(), static_cast<std::int32_t>(utf8.size())));
}

bool in_category(char32_t c, std::uint32_t mask) {
  return (std::uint32_t{1} << u_charType(static_cast<UChar32>(c)) & mask) != 0;
}

}  // namespace

std::u32string to_utf32(std::string_view utf8) {
  const icu::UnicodeString text = decode(utf8);
  std::u32string points;
  points.reserve(utf8.size());
  for (std::int32_t i = 0; i < text.length(); i = text.moveIndex32(i, 1)) {
    points.push_back(static_cast<char32_t>(text.char32At(i)));
  }
  return points;
}

std::string to_utf8(std::u32string_view text) {
  icu::UnicodeString units;
  for (const char32_t c : text) units.append(static_cast<UChar32>(c));
  std::string utf8;
  units.toUTF8String(utf8);
  return utf8;
}

std::string to_lower(std::string_view utf8) {
  std::string lower;
  decode(utf8).toLower(icu::Locale::getRoot()).toUTF8String(lower);
  return lower;
}

bool is_space(char32_t c) {
  return (c >= 0x09 && c <= 0x0d) || (c >= 0x1c && c <= 0x20) || c == 0x85 || c == 0xa0 || c == 0x1680 ||
         (c >= 0x2000 && c <= 0x200a) || c == 0x2028 || c == 0x2029 || c == 0x202f || c == 0x205f || c == 0x3000;
}

bool is_number(char32_t c) {
  return in_category(c, U_GC_N_MASK);
}
bool is_punctuation(char32_t c) {
  return in_category(c, U_GC_P_MASK);
}
bool is_symbol(char32_t c) {
  return in_category(c, U_GC_S_MASK);
}

Spacing spacing_of(char32_t c) {
  const auto point = static_cast<UChar32>(c);
  UErrorCode error = U_ZERO_ERROR;
  const UScriptCode script = uscript_getScript(point, &error);
  if (U_FAILURE(error) || !in_category(c, U_GC_L_MASK | U_GC_M_MASK | U_GC_N_MASK)) return Spacing::no_letter;
  if (script == USCRIPT_HAN || script == USCRIPT_BOPOMOFO) return Spacing::han;
  const bool long_vowel = c == 0x30fc || c == 0xff70;  // common to both kana
  if (script == USCRIPT_HIRAGANA || script == USCRIPT_KATAKANA || long_vowel) return Spacing::kana;
  const auto breaks = static_cast<ULineBreak>(u_getIntPropertyValue(point, UCHAR_LINE_BREAK));
  if (breaks == U_LB_COMPLEX_CONTEXT || script == USCRIPT_TIBETAN || script == USCRIPT_YI) return Spacing::none;
  return Spacing::words;
}

std::vector<std::u32string> split_words(std::u32string_view text) {
  std::vector<std::u32string> words;
  auto at = text.begin();
  while (true) {
    const auto begin = std::find_if_not(at, text.end(), is_space);
    if (begin == text.end()) return words;
    at = std::find_if(begin, text.end(), is_space);
    words.emplace_back(begin, at);
  }
}

namespace {

/// Ranges of characters that sacreBLEU 2.6.0 takes for Chinese, both ends included. The first comes from its ranges
/// beyond U+FFFF, which Python reads as U+2001 to U+2A6D; so it has none beyond.
constexpr std::pair<char32_t, char32_t> chinese_ranges[] = {
    {0x2001, 0x2a6d}, {0x2e80, 0x2fdf}, {0x2ff0, 0x303f}, {0x3100, 0x312f}, {0x31a0, 0x31ef},
    {0x3200, 0x4db5}, {0x4e00, 0x9fbb}, {0xf900, 0xfa2d}, {0xfa30, 0xfa6a}, {0xfa70, 0xfad9},
    {0xfe10, 0xfe1f}, {0xfe30, 0xfe4f}, {0xff00, 0xffef}};

bool is_chinese(char32_t c) {
  return std::any_of(std::begin(chinese_ranges), std::end(chinese_ranges),
                     [c](const auto& range) { return c >= range.first && c <= range.second; });
}

std::u32string replace_all(std::u32string text, std::u32string_view what, std::u32string_view by) {
  for (std::size_t at = text.find(what); at != text.npos; at = text.find(what, at + by.size())) {
    text.replace(at, what.size(), by);
  }
  return text;
}

bool is_digit(char32_t c) {
  return c >= U'0' && c <= U'9';
}
bool is_point(char32_t c) {
  return c == U'.' || c == U',';
}
/// ASCII punctuation except ' , - . which the rules below handle.
bool is_split_punctuation(char32_t c) {
  return (c >= U' ' && c <= U'&') || (c >= U'(' && c <= U'+') || c == U'/' || (c >= U':' && c <= U'@') ||
         (c >= U'[' && c <= U'`') || (c >= U'{' && c <= U'~');
}

/// Puts spaces around each character for which `kind` is true.
template <class Kind>
std::u32string isolate(std::u32string_view text, Kind kind) {
  std::u32string out;
  for (const char32_t c : text) {
    if (kind(c)) {
      out += {U' ', c, U' '};
    } else {
      out += c;
    }
  }
  return out;
}

enum class Spaces { after_each, before_each };

/// Substitutes adjacent pairs (a)(b), left to right without overlap, by `a b ` or ` a b`, like a regular expression.
template <class First, class Second>
std::u32string split_pairs(std::u32string_view text, First first, Second second, Spaces spaces) {
  std::u32string out;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (i + 1 == text.size() || !first(text[i]) || !second(text[i + 1])) {
      out += text[i];
      continue;
    }
    if (spaces == Spaces::after_each) {
      out += {text[i], U' ', text[i + 1], U' '};
    } else {
      out += {U' ', text[i], U' ', text[i + 1]};
    }
    ++i;
  }
  return out;
}

/// Splits periods and commas that are not between digits, and a dash after a digit.
std::u32string split_points(std::u32string text) {
  const auto not_digit = [](char32_t c) { return !is_digit(c); };
  text = split_pairs(text, not_digit, is_point, Spaces::after_each);
  text = split_pairs(text, is_point, not_digit, Spaces::before_each);
  return split_pairs(text, is_digit, [](char32_t c) { return c == U'-'; }, Spaces::after_each);
}

/// The rules of mteval-v13a for Western languages.
std::u32string split_ascii_punctuation(std::u32string_view text) {
  return split_points(isolate(text, is_split_punctuation));
}

std::u32string decode_entities(std::u32string text) {
  text = replace_all(std::move(text), U"&quot;", U"\"");
  text = replace_all(std::move(text), U"&amp;", U"&");
  text = replace_all(std::move(text), U"&lt;", U"<");
  return replace_all(std::move(text), U"&gt;", U">");
}

std::u32string apply_13a(std::u32string text) {
  text = replace_all(std::move(text), U"<skipped>", U"");
  text = replace_all(std::move(text), U"-\n", U"");
  text = replace_all(std::move(text), U"\n", U" ");
  return split_ascii_punctuation(U" " + decode_entities(std::move(text)) + U" ");
}

std::u32string apply_zh(std::u32string text) {
  // sacreBLEU strips spaces first, so that a mark at the begin or end has no neighbour.
  while (!text.empty() && is_space(text.back())) text.pop_back();
  text.erase(text.begin(), std::find_if_not(text.begin(), text.end(), is_space));
  return split_ascii_punctuation(isolate(text, is_chinese));
}

std::u32string apply_intl(std::u32string text) {
  // sacreBLEU strips trailing spaces first. A trailing space would separate the mark before it from a number.
  while (!text.empty() && is_space(text.back())) text.pop_back();
  const auto not_number = [](char32_t c) { return !is_number(c); };
  text = split_pairs(text, not_number, is_punctuation, Spaces::after_each);
  text = split_pairs(text, is_punctuation, not_number, Spaces::before_each);
  return isolate(text, is_symbol);
}

}  // namespace

const Choices<Tokenizer>& tokenizers() {
  static const Choices<Tokenizer> words = {{"auto", Tokenizer::automatic},    {"13a", Tokenizer::thirteen_a},
                                           {"none", Tokenizer::none},         {"intl", Tokenizer::intl},
                                           {"char", Tokenizer::character},    {"zh", Tokenizer::chinese},
                                           {"ja-mecab", Tokenizer::japanese}, {"ko-mecab", Tokenizer::korean}};
  return words;
}

std::string_view name_of(Tokenizer tokenizer) {
  for (const auto& [name, candidate] : tokenizers()) {
    if (candidate == tokenizer) return name;
  }
  return "";
}

Result<Tokenizer> parse_tokenizer(std::string_view wanted) {
  for (const auto& [name, candidate] : tokenizers()) {
    if (name == wanted) return candidate;
  }
  return Error{fmt::format("unknown tokeniser '{}', expected {}", wanted, fmt::join(words_of(tokenizers()), ", "))};
}

Tokenizer tokenizer_for(std::span<const std::string> lines) {
  constexpr std::size_t max_lines = 2000;     // a held-out set's usual size; the script is clear long before
  std::int64_t han = 0, kana = 0, other = 0;  // characters of scripts without spaces
  std::int64_t words = 0;                     // of other scripts
  for (const std::string& line : lines.first(std::min(lines.size(), max_lines))) {
    bool in_word = false;
    for (const char32_t c : to_utf32(line)) {
      const Spacing spacing = spacing_of(c);
      words += spacing == Spacing::words && !in_word ? 1 : 0;
      in_word = spacing == Spacing::words;
      han += spacing == Spacing::han ? 1 : 0;
      kana += spacing == Spacing::kana ? 1 : 0;
      other += spacing == Spacing::none ? 1 : 0;
    }
  }
  if (han + kana + other <= words) return Tokenizer::thirteen_a;
  // Chinese text has hardly any kana, Japanese at least as many as Han characters or nearly so.
  return other > han + kana || 10 * kana > han + kana ? Tokenizer::character : Tokenizer::chinese;
}

std::vector<std::u32string> tokenize(Tokenizer tokenizer, std::string_view line) {
  std::u32string text = to_utf32(line);
  switch (tokenizer) {
    case Tokenizer::thirteen_a:
      return split_words(apply_13a(std::move(text)));
    case Tokenizer::intl:
      return split_words(apply_intl(std::move(text)));
    case Tokenizer::character:
      return split_words(isolate(text, [](char32_t) { return true; }));
    case Tokenizer::chinese:
      return split_words(apply_zh(std::move(text)));
    case Tokenizer::none:
      return split_words(text);
    case Tokenizer::automatic:
      fail("tokenize: 'auto' is no tokeniser, expected the one that it stands for");
    case Tokenizer::japanese:
    case Tokenizer::korean:
      break;
  }
  fail("tokenize: {} needs a segmenter", name_of(tokenizer));
}

namespace {

/// Characters that sacreBLEU's "tercom" separates: Han, strokes, radicals, compatibility forms, enclosed letters. Its
/// rules for kana never apply, since they look for the begin of the line, which is a space by then.
bool is_separate_for_ter(char32_t c) {
  constexpr std::pair<char32_t, char32_t> ranges[] = {{0x2e80, 0x2eff}, {0x31c0, 0x31ef}, {0x3200, 0x4dbf},
                                                      {0x4e00, 0x9fff}, {0xf900, 0xfaff}, {0xfe30, 0xfe4f}};
  return std::any_of(std::begin(ranges), std::end(ranges),
                     [c](const auto& range) { return c >= range.first && c <= range.second; });
}

/// Asian and full-width punctuation of the same.
bool is_asian_mark(char32_t c) {
  constexpr std::u32string_view marks = U"\u3001\u3002\u30fb\uff0e\uff0c\uff1f\uff1a\uff1b\uff01\uff02\uff08\uff09";
  return (c >= 0x3008 && c <= 0x3011) || (c >= 0x3014 && c <= 0x301f) || (c >= 0xff61 && c <= 0xff65) ||
         marks.find(c) != marks.npos;
}

}  // namespace

std::vector<std::u32string> words_for_ter(const TerOptions& options, std::string_view line) {
  std::u32string text = to_utf32(options.case_sensitive ? std::string(line) : to_lower(line));
  if (options.normalized) {
    text = isolate(U" " + decode_entities(std::move(text)) + U" ", is_split_punctuation);
    text = split_points(replace_all(std::move(text), U"'s ", U" 's "));
    if (options.asian_support) {
      text = isolate(text, [](char32_t c) { return is_separate_for_ter(c) || is_asian_mark(c); });
    }
  }
  if (options.no_punctuation) {
    constexpr std::u32string_view marks = U".,?:;!\"()";
    std::erase_if(
        text, [&](char32_t c) { return marks.find(c) != marks.npos || (options.asian_support && is_asian_mark(c)); });
  }
  return split_words(text);
}

}  // namespace babelring
