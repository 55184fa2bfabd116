#pragma once

#include <charconv>
#include <optional>
#include <string_view>
#include <system_error>

namespace babelring {

/// The number that `text` consists of, in decimal; nothing if there are other characters or it does not fit.
template <class Number>
std::optional<Number> parse_number(std::string_view text) {
  Number number{};
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, number);
  if (error != std::errc() || stop != end) return std::nullopt;
  return number;
}

}  // namespace babelring
