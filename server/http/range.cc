#include "server/http/range.h"

#include <algorithm>
#include <charconv>

namespace babelring::http {
namespace {

/// Parses a decimal number. Returns nothing unless the text is all digits and the value fits.
std::optional<std::int64_t> number(std::string_view text) {
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || text.front() == '-') return std::nullopt;
  return value;
}

}  // namespace

RangeRequest parse_range(std::string_view header, std::int64_t size) {
  using Kind = RangeRequest::Kind;
  constexpr std::string_view unit = "bytes=";
  const RangeRequest whole{Kind::whole, 0, size};
  if (!header.starts_with(unit) || header.find(',') != std::string_view::npos) return whole;
  const std::string_view range = header.substr(unit.size());
  const auto dash = range.find('-');
  if (dash == std::string_view::npos) return whole;
  const std::string_view left = range.substr(0, dash), right = range.substr(dash + 1);

  if (left.empty()) {  // the last n bytes
    const auto last = right.empty() ? std::nullopt : number(right);
    if (!last) return whole;
    if (*last == 0 || size == 0) return {Kind::unsatisfiable, 0, 0};
    const std::int64_t length = std::min(*last, size);
    return {Kind::part, size - length, length};
  }
  const auto first = number(left);
  const auto last = right.empty() ? std::optional<std::int64_t>(INT64_MAX) : number(right);
  if (!first || !last || *last < *first) return whole;
  if (*first >= size) return {Kind::unsatisfiable, 0, 0};
  return {Kind::part, *first, std::min(*last, size - 1) - *first + 1};
}

}  // namespace babelring::http
