#include "nmt/metrics/tokenizer.h"

#include <fmt/format.h>

#include <array>
#include <utility>

#include "nmt/metrics/unicode.h"

namespace babelring {

namespace {

constexpr std::array<std::pair<Tokenizer, std::string_view>, 4> names = {{{Tokenizer::thirteen_a, "13a"},
                                                                          {Tokenizer::none, "none"},
                                                                          {Tokenizer::intl, "intl"},
                                                                          {Tokenizer::character, "char"}}};

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

std::u32string apply_13a(std::u32string text) {
  text = replace_all(std::move(text), U"<skipped>", U"");
  text = replace_all(std::move(text), U"-\n", U"");
  text = replace_all(std::move(text), U"\n", U" ");
  text = replace_all(std::move(text), U"&quot;", U"\"");
  text = replace_all(std::move(text), U"&amp;", U"&");
  text = replace_all(std::move(text), U"&lt;", U"<");
  text = replace_all(std::move(text), U"&gt;", U">");
  text = U" " + text + U" ";
  const auto not_digit = [](char32_t c) { return !is_digit(c); };
  text = isolate(text, is_split_punctuation);
  text = split_pairs(text, not_digit, is_point, Spaces::after_each);
  text = split_pairs(text, is_point, not_digit, Spaces::before_each);
  return split_pairs(
      text, is_digit, [](char32_t c) { return c == U'-'; }, Spaces::after_each);
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

std::string_view name_of(Tokenizer tokenizer) {
  for (const auto& [candidate, name] : names) {
    if (candidate == tokenizer) return name;
  }
  return "";
}

Result<Tokenizer> parse_tokenizer(std::string_view wanted) {
  for (const auto& [candidate, name] : names) {
    if (name == wanted) return candidate;
  }
  return Error{fmt::format("unknown tokeniser '{}', expected 13a, none, intl or char", wanted)};
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
    case Tokenizer::none:
      break;
  }
  return split_words(text);
}

}  // namespace babelring
