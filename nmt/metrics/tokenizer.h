#pragma once

#include <memory>
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
///  - japanese, korean: "ja-mecab", "ko-mecab", words of MeCab with the dictionary IPA or mecab-ko-dic. They need a
///    Segmenter.
/// `automatic`, "auto", stands for the one that tokenizer_for() chooses and tokenises nothing itself.
enum class Tokenizer { automatic, thirteen_a, none, intl, character, chinese, japanese, korean };

/// The names: "auto", "13a", "none", "intl", "char", "zh", "ja-mecab", "ko-mecab".
const Choices<Tokenizer>& tokenizers();
inline constexpr const char* tokenizer_help =
    "sacreBLEU's tokenizer for BLEU; auto: by the script of the references: zh for Chinese, char for Japanese, Thai "
    "and others without spaces between words, otherwise 13a. ja-mecab needs Debian's libmecab2 and mecab-ipadic-utf8";
std::string_view name_of(Tokenizer tokenizer);
/// Parses a tokeniser name; the Error lists all names.
Result<Tokenizer> parse_tokenizer(std::string_view name);

/// A tokeniser that needs a model or a dictionary. Not thread-safe.
class Segmenter {
 public:
  virtual ~Segmenter() = default;
  virtual std::vector<std::u32string> split(std::string_view line) const = 0;
  /// For "tok:" of a signature: "ja-mecab-0.996-IPA" as sacreBLEU's ("+Reiwa" with Debian's dictionary),
  /// "flores200[0123456789ab]" with the first digits of the file's SHA-256.
  virtual std::string signature() const = 0;
};

/// Opens MeCab with the dictionary for `tokenizer`, japanese or korean. The Error names the packages that are missing.
Result<std::shared_ptr<const Segmenter>> open_mecab(Tokenizer tokenizer);

/// A tokeniser as options name it: a word of tokenizers(), or NAME:FILE for a SentencePiece model whose pieces are the
/// tokens. NAME is spm, or flores101, flores200 or spBLEU-1K if the file is sacreBLEU's model of that name.
struct TokenizerChoice {
  Tokenizer tokenizer = Tokenizer::automatic;
  std::shared_ptr<const Segmenter> segmenter;  // of FILE; null: none was named

  /// The words, NAME:FILE last.
  static std::vector<std::string> words();
  /// The Error says what was found: an unknown word, no file, or no model in it.
  static Result<TokenizerChoice> parse(std::string_view text);
};

/// The tokeniser for texts in the script of `lines`. Where most words are written without spaces, BLEU over words that
/// spaces separate sees sentences of one word: then `chinese` for Chinese, `character` for Japanese, Thai and others.
/// Otherwise `thirteen_a`.
Tokenizer tokenizer_for(std::span<const std::string> lines);
/// The tokeniser itself, or if it is `automatic` the one for these texts.
inline Tokenizer resolved(Tokenizer tokenizer, std::span<const std::string> lines) {
  return tokenizer == Tokenizer::automatic ? tokenizer_for(lines) : tokenizer;
}

/// Splits a line of UTF-8 into tokens. Throws Failure if the tokeniser is `automatic` or needs a Segmenter.
std::vector<std::u32string> tokenize(Tokenizer tokenizer, std::string_view line);

/// How TER reads a text. The defaults are those of Tercom (Snover et al. 2006) and sacreBLEU.
struct TerOptions {
  bool normalized = false;      // split punctuation off words, decode XML entities
  bool no_punctuation = false;  // remove . , ? : ; ! " ( )
  bool asian_support = false;  // with `normalized` each Han character is a word, with `no_punctuation` its marks go too
  bool case_sensitive = false;
};
/// The words that TER compares, equal to sacreBLEU's tokeniser "tercom".
std::vector<std::u32string> words_for_ter(const TerOptions& options, std::string_view line);

}  // namespace babelring
