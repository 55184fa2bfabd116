#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/choices.h"
#include "base/result.h"

namespace babelring {

/// Unicode functions for the metrics, over UTF-8 and UTF-32. Invalid UTF-8 becomes U+FFFD. The metrics use
/// ICU only here.
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

/// BLEU tokenisers, each equal to sacreBLEU's tokeniser of that name.
///  - thirteen_a: "13a", mteval-v13a of WMT. Splits ASCII punctuation, but keeps '.' ',' '-' inside numbers.
///  - none: white space only, for text that is already tokenised.
///  - intl: "intl", mteval-v14 --international-tokenization. Splits Unicode punctuation and symbols.
///  - character: "char", every character except white space is a token.
///  - chinese: "zh", every Chinese character and full-width mark is a token, the rest as 13a.
/// `automatic`, "auto", stands for the one that tokenizer_for() chooses and tokenises nothing itself.
enum class Tokenizer { automatic, thirteen_a, none, intl, character, chinese };

/// The names: "auto", "13a", "none", "intl", "char", "zh".
const Choices<Tokenizer>& tokenizers();
inline constexpr const char* tokenizer_help =
    "sacreBLEU's tokenizer for BLEU; auto: by the script of the references: zh for Chinese, char for Japanese, Thai "
    "and others without spaces between words, otherwise 13a";
std::string_view name_of(Tokenizer tokenizer);
/// Parses a tokeniser name; the Error lists all names.
Result<Tokenizer> parse_tokenizer(std::string_view name);

/// The tokeniser for texts in the script of `lines`. Where most words are written without spaces, BLEU over words that
/// spaces separate sees sentences of one word: then `chinese` for Chinese, `character` for Japanese, Thai and others.
/// Otherwise `thirteen_a`.
Tokenizer tokenizer_for(std::span<const std::string> lines);
/// The tokeniser itself, or if it is `automatic` the one for these texts.
inline Tokenizer resolved(Tokenizer tokenizer, std::span<const std::string> lines) {
  return tokenizer == Tokenizer::automatic ? tokenizer_for(lines) : tokenizer;
}

/// Splits a line of UTF-8 into tokens. Throws Failure if the tokeniser is `automatic`.
std::vector<std::u32string> tokenize(Tokenizer tokenizer, std::string_view line);

}  // namespace babelring
