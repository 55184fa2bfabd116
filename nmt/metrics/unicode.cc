#include "nmt/metrics/unicode.h"

#include <unicode/locid.h>
#include <unicode/uchar.h>
#include <unicode/unistr.h>
#include <unicode/uscript.h>

#include <algorithm>

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

}  // namespace babelring
