#pragma once

#include <charconv>
#include <cmath>
#include <concepts>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

namespace babelring {

/// `text` with ASCII letters in lower case.
inline std::string lower(std::string_view text) {
  std::string result(text);
  for (char& letter : result) {
    if (letter >= 'A' && letter <= 'Z') letter = static_cast<char>(letter - 'A' + 'a');
  }
  return result;
}

/// Less than 2 GiB of bytes in base64 with padding (RFC 4648).
std::string base64(std::string_view bytes);
/// The same of the bytes that lower-case hexadecimal digits stand for.
std::string base64_of_hex(std::string_view hex);

/// `text` in single quotes, as one word of a shell's command.
std::string shell_quoted(std::string_view text);

/// The text with &, <, > and " escaped, for the content and the quoted attribute values of HTML, SVG and XML.
inline std::string xml_text(std::string_view text) {
  std::string escaped;
  for (const char c : text) {
    switch (c) {
      case '&':
        escaped += "&amp;";
        break;
      case '<':
        escaped += "&lt;";
        break;
      case '>':
        escaped += "&gt;";
        break;
      case '"':
        escaped += "&quot;";
        break;
      default:
        escaped += c;
    }
  }
  return escaped;
}

/// The known name with the smallest edit distance to `name`. Empty if that distance exceeds max(2, length / 3).
/// For messages such as: unknown key 'warmup'; did you mean 'warm_up'?
std::string nearest_name(std::string_view name, const std::vector<std::string>& known);

/// "" or "; did you mean 'X'?".
std::string did_you_mean(std::string_view name, const std::vector<std::string>& known);

/// The same for dotted keys. Suggests up to three keys with the same last part as `key` ("seed" suggests
/// 'training.seed'), otherwise the nearest key.
std::string did_you_mean_key(std::string_view key, const std::vector<std::string>& known);

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

/// Formats a number with thousands separators, rounded to an integer: 1234567 → "1,234,567".
std::string grouped(double number);

/// Formats a number with its unit and at most two decimals: "1 epoch", "2.5 epochs", "100,000 updates". `unit` is
/// singular.
std::string counted(double number, std::string_view unit);

}  // namespace babelring
