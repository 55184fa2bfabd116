#include "base/check_name.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <boost/json/object.hpp>
#include <cstddef>
#include <cstdint>
#include <random>
#include <utility>

#include "base/clock.h"
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

constexpr std::string_view crockford = "0123456789ABCDEFGHJKMNPQRSTVWXYZ";

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

Status check_labels(const json::object& labels) {
  constexpr std::size_t max_labels = 64, max_name_bytes = 64, max_value_bytes = 256;
  if (labels.size() > max_labels)
    return Error{fmt::format("found {} labels, expected at most {}", labels.size(), max_labels)};
  for (const auto& [key, value] : labels) {
    const std::string name = printable(std::string_view(key));
    if (key.empty() || key.size() > max_name_bytes || key.find('=') != key.npos) {
      return Error{fmt::format("label '{}': expected a name of 1 to {} bytes without '='", name, max_name_bytes)};
    }
    if (!value.is_string() || value.get_string().size() > max_value_bytes) {
      return Error{fmt::format("label '{}': expected a text of at most {} bytes", name, max_value_bytes)};
    }
    for (const std::string_view text : {std::string_view(key), std::string_view(value.get_string())}) {
      if (const Status good = check_name(text); !good) return Error{fmt::format("label '{}': {}", name, good.error())};
    }
  }
  return {};
}

Result<json::object> parse_labels(const std::vector<std::string>& texts) {
  json::object labels;
  for (const std::string& text : texts) {
    const std::size_t equals = text.find('=');
    if (equals == std::string::npos) return Error{fmt::format("expected KEY=VALUE, found '{}'", printable(text))};
    labels[text.substr(0, equals)] = text.substr(equals + 1);
  }
  if (const Status good = check_labels(labels); !good) return Error{good.error()};
  return labels;
}

std::string make_id(char prefix) {
  thread_local std::random_device entropy;
  std::string id(28, '0');
  id[0] = prefix;
  id[1] = '_';
  auto time = static_cast<std::uint64_t>(wall_time_ms()) & 0xffffffffffffULL;
  for (std::size_t i = 11; i >= 2; --i, time >>= 5) id[i] = crockford[time & 31];  // 48 bits in 10 digits
  for (std::size_t i = 12; i < 28; i += 4) {
    std::uint32_t bits = entropy();  // 80 bits in 16 digits
    for (std::size_t j = 0; j < 4; ++j, bits >>= 5) id[i + j] = crockford[bits & 31];
  }
  return id;
}

bool valid_id(std::string_view id, char prefix) {
  return id.size() == 28 && id[0] == prefix && id[1] == '_' &&
         id.find_first_not_of(crockford, 2) == std::string_view::npos;
}

}  // namespace babelring
