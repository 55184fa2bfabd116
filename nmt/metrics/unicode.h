#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace babelring {

/// Unicode functions for the metrics, over UTF-8 and UTF-32. Invalid UTF-8 becomes U+FFFD. The metrics use
/// ICU only in unicode.cc.
std::u32string to_utf32(std::string_view utf8);
std::string to_utf8(std::u32string_view text);

/// Full locale-independent lower-casing, like Python's str.lower().
std::string to_lower(std::string_view utf8);

/// White space as in Python's str.isspace() and str.split().
bool is_space(char32_t c);
/// Unicode general categories N*, P* and S*.
bool is_number(char32_t c);
bool is_punctuation(char32_t c);
bool is_symbol(char32_t c);

/// How the script of a letter separates words.
enum class Spacing {
  words,  // by spaces
  han,    // Han characters, of Chinese and Japanese: not at all
  kana,   // Hiragana and Katakana: not at all
  none,   // Thai, Lao, Khmer, Burmese, Tibetan and others: not at all
  no_letter,
};
/// By the character's script and the class for line breaking of UAX #14 (SA: South East Asian).
Spacing spacing_of(char32_t c);

/// Splits at white space, like Python's str.split().
std::vector<std::u32string> split_words(std::u32string_view text);

}  // namespace babelring
