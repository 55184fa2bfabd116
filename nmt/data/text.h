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

/// Position of the first control byte (NUL included; below 0x20 except tab, and 0x7f); npos if there is none.
std::size_t find_control_byte(std::string_view text);

/// Collapses every run of white space (tab, space, no-break and other Unicode spaces) to one space and trims both ends.
/// Expects valid UTF-8. Does no Unicode normalisation; the vocabulary does that.
std::string normalize_spaces(std::string_view text);

/// Number of words separated by single spaces. Expects the output of normalize_spaces().
std::int64_t count_words(std::string_view text);

/// A 64-bit hash of a text. Among 100 million distinct texts, the probability of any collision is 0.03 %.
std::uint64_t hash_text(std::string_view text, std::uint64_t seed = 0);

}  // namespace babelring
