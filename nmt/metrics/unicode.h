#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace babelring {

/// The Unicode that metrics need, over UTF-8 and UTF-32. Invalid UTF-8 counts as U+FFFD. Only unicode.cc sees ICU.
std::u32string to_utf32(std::string_view utf8);
std::string to_utf8(std::u32string_view text);

/// Full lower-casing without a locale, as Python's str.lower().
std::string to_lower(std::string_view utf8);

/// White space as Python's str.isspace() and str.split() see it.
bool is_space(char32_t c);
/// General categories N*, P*, S*.
bool is_number(char32_t c);
bool is_punctuation(char32_t c);
bool is_symbol(char32_t c);

/// Words between white space, as Python's str.split().
std::vector<std::u32string> split_words(std::u32string_view text);

}  // namespace babelring
