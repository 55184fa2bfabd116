#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace babelring {

/// Position of the first invalid UTF-8 byte, npos if there is none. Overlong forms, surrogates and values above
/// U+10FFFF are invalid.
std::size_t find_invalid_utf8(std::string_view text);

/// Replaces each byte outside a valid sequence by U+FFFD. Returns the number of replaced bytes.
std::int64_t replace_invalid_utf8(std::string& text);

/// Cuts the text to at most `bytes` bytes, and removes what that leaves of a character.
void cut_text(std::string& text, std::size_t bytes);

/// The code point at `place`, which must lie in the text; U+FFFD for a damaged one. Moves `place` behind it.
std::int32_t next_character(std::string_view text, std::size_t& place);

/// Appends a code point up to U+10FFFF in UTF-8.
void append_character(std::string& text, std::uint32_t code);

/// Position of the first byte of the first control character: below U+0020 except tab, and U+007F to U+009F except
/// U+0085, which is white space. npos if there is none.
std::size_t find_control(std::string_view text);

/// Collapses every run of white space (tab, space, next line, no-break and other Unicode spaces) to one space and trims
/// both ends. Expects valid UTF-8. Does no Unicode normalisation; the vocabulary does that.
std::string normalize_spaces(std::string_view text);

/// True if a character of the text can be seen: neither white space, nor one of Unicode's default-ignorable and format
/// characters (zero-width space, byte order mark, soft hyphen, direction marks, …), nor a blank symbol (U+2581,
/// U+2800). Expects valid UTF-8.
bool is_visible(std::string_view text);

/// The form in which texts are compared: in NFKC, without characters that cannot be seen, with single spaces. Texts
/// that look the same (composed or decomposed, full or half width, with a zero-width space or without) have the same
/// form. Expects valid UTF-8.
std::string comparable(std::string_view text);

/// Number of words of a comparable() text: of white-space separated words, and in scripts that do not separate words an
/// estimate, 1 for 1.5 characters of Han or Yi, 3 of Kana or Bopomofo, 4 letters (marks not counted) of Thai, Lao,
/// Khmer, Burmese, Tibetan and other Tai scripts, rounded up. Source: the Universal Declaration of Human Rights has for
/// each English word 1.5 characters in Chinese, 1.0 Han and 1.2 Kana in Japanese, 1.7 in Yi, and 3.6 to 4.3 letters in
/// the others; of its single articles the count is 0.6 to 1.6 times that of English. scripts/corpus/parallel.py counts
/// alike.
std::int64_t count_words(std::string_view text);

/// Characters of the longest word of a comparable() text. Characters of scripts that do not separate words end a word.
std::int64_t longest_word(std::string_view text);

/// A 64-bit hash of a text. Among 100 million distinct texts, the probability of any collision is 0.03 %.
std::uint64_t hash_text(std::string_view text, std::uint64_t seed = 0);

}  // namespace babelring
