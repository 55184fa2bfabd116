#pragma once

#include <charconv>
#include <cmath>
#include <concepts>
#include <limits>
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

/// The number that a person reads in `text`, which is an option's or a key's value: decimal, with a sign or without,
/// so that 010 is ten; 1e6 is a million for an integer, too. Nothing if a person reads none (0x10, 1.5 for an integer),
/// if it is not finite (nan, inf) or does not fit.
template <class Number>
std::optional<Number> parse_decimal(std::string_view text) {
  if (text.starts_with('+') && text.size() > 1 && text[1] != '-') text.remove_prefix(1);
  const auto number = parse_number<Number>(text);
  if constexpr (std::floating_point<Number>) {
    return number && std::isfinite(*number) ? number : std::nullopt;
  } else {
    if (number) return number;
    constexpr double max_exact = 1e15;  // a fraction of 0.125 is still told from an integer
    if (text.find_first_of("eE") == std::string_view::npos) return std::nullopt;  // 4.0 is no integer
    const auto value = parse_number<double>(text);
    const bool fits = value && std::abs(*value) <= max_exact && std::trunc(*value) == *value &&
                      *value >= static_cast<double>(std::numeric_limits<Number>::lowest()) &&
                      *value <= static_cast<double>(std::numeric_limits<Number>::max());
    return fits ? std::optional(static_cast<Number>(*value)) : std::nullopt;
  }
}

}  // namespace babelring
