#include "base/check_name.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <utility>

#include "base/log.h"

namespace babelring {
namespace {

/// Ranges of refused code points, inclusive.
constexpr std::array<std::pair<std::uint32_t, std::uint32_t>, 10> refused_characters = {{
    {0x0000, 0x001f},  // control characters
    {0x007f, 0x009f},
    {0x061c, 0x061c},    // Arabic letter mark
    {0x180e, 0x180e},    // Mongolian vowel separator (zero width)
    {0x200b, 0x200b},    // zero-width space
    {0x200e, 0x200f},    // directional marks
    {0x2028, 0x202e},    // line and paragraph separators, directional embeddings and overrides
    {0x2060, 0x206f},    // word joiner, invisible operators, directional isolates
    {0xfeff, 0xfeff},    // byte order mark
    {0xe0000, 0xe007f},  // tags
}};

/// The code point at byte `at` of valid UTF-8, and its length in bytes.
std::pair<std::uint32_t, std::size_t> code_point_at(std::string_view text, std::size_t at) {
  const auto byte = [&](std::size_t i) { return static_cast<std::uint32_t>(static_cast<unsigned char>(text[at + i])); };
  const std::uint32_t first = byte(0);
  if (first < 0x80) return {first, 1};
  const std::size_t length = first >= 0xf0 ? 4 : first >= 0xe0 ? 3 : 2;
  std::uint32_t point = first & (0xffU >> (length + 1));
  for (std::size_t i = 1; i < length; ++i) point = point << 6 | (byte(i) & 0x3fU);
  return {point, length};
}

}  // namespace

Status check_name(std::string_view text) {
  if (!is_utf8(text)) return Error{"expected UTF-8"};
  for (std::size_t at = 0; at < text.size();) {
    const auto [point, length] = code_point_at(text, at);
    const auto holds = [found = point](const auto& range) { return range.first <= found && found <= range.second; };
    if (std::any_of(refused_characters.begin(), refused_characters.end(), holds)) {
      return Error{fmt::format("expected no control or invisible characters, found U+{:04X} at byte {}", point, at)};
    }
    at += length;
  }
  return {};
}

}  // namespace babelring
