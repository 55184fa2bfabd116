#include "nmt/data/text.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

#include "nmt/core/random.h"

namespace babelring {

namespace {

std::uint8_t byte_at(std::string_view text, std::size_t i) {
  return static_cast<std::uint8_t>(text[i]);
}

/// Length in bytes of the valid sequence at `i`, 0 if invalid. Source: Unicode 15, table 3-7.
std::size_t sequence_at(std::string_view text, std::size_t i) {
  const std::uint8_t lead = byte_at(text, i);
  if (lead < 0x80) return 1;
  if (lead < 0xc2 || lead > 0xf4) return 0;
  const std::size_t length = lead < 0xe0 ? 2 : lead < 0xf0 ? 3 : 4;
  if (i + length > text.size()) return 0;
  const std::uint8_t low = lead == 0xe0 ? 0xa0 : lead == 0xf0 ? 0x90 : 0x80;
  const std::uint8_t high = lead == 0xed ? 0x9f : lead == 0xf4 ? 0x8f : 0xbf;
  if (byte_at(text, i + 1) < low || byte_at(text, i + 1) > high) return 0;
  for (std::size_t k = 2; k < length; ++k) {
    if ((byte_at(text, i + k) & 0xc0) != 0x80) return 0;
  }
  return length;
}

/// Length in bytes of the white-space character at `i`, 0 if there is none.
std::size_t space_at(std::string_view text, std::size_t i) {
  constexpr std::array<std::string_view, 16> spaces = {"\xc2\xa0",     "\xe1\x9a\x80", "\xe2\x80\x80", "\xe2\x80\x81",
                                                       "\xe2\x80\x82", "\xe2\x80\x83", "\xe2\x80\x84", "\xe2\x80\x85",
                                                       "\xe2\x80\x86", "\xe2\x80\x87", "\xe2\x80\x88", "\xe2\x80\x89",
                                                       "\xe2\x80\x8a", "\xe2\x80\xaf", "\xe2\x81\x9f", "\xe3\x80\x80"};
  if (text[i] == ' ' || text[i] == '\t') return 1;
  if (byte_at(text, i) < 0x80) return 0;
  const auto found = std::find_if(spaces.begin(), spaces.end(),
                                  [&](std::string_view space) { return text.substr(i, space.size()) == space; });
  return found == spaces.end() ? 0 : found->size();
}

}  // namespace

std::size_t find_invalid_utf8(std::string_view text) {
  for (std::size_t i = 0; i < text.size();) {
    const std::size_t length = sequence_at(text, i);
    if (length == 0) return i;
    i += length;
  }
  return std::string_view::npos;
}

std::int64_t replace_invalid_utf8(std::string& text) {
  std::int64_t replaced = 0;
  std::string out;
  for (std::size_t i = 0; i < text.size();) {
    const std::size_t length = sequence_at(text, i);
    if (length == 0) {
      out += "\xef\xbf\xbd";
      ++replaced;
    }
    out.append(text, i, length);
    i += std::max<std::size_t>(length, 1);
  }
  text = std::move(out);
  return replaced;
}

std::size_t find_control_byte(std::string_view text) {
  const auto found = std::find_if(text.begin(), text.end(), [](char c) {
    const auto byte = static_cast<std::uint8_t>(c);
    return (byte < 0x20 && c != '\t') || byte == 0x7f;
  });
  return found == text.end() ? std::string_view::npos : static_cast<std::size_t>(found - text.begin());
}

std::string normalize_spaces(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  bool pending = false;
  for (std::size_t i = 0; i < text.size();) {
    const std::size_t space = space_at(text, i);
    if (space > 0) {
      pending = !out.empty();
      i += space;
      continue;
    }
    if (pending) out += ' ';
    pending = false;
    out += text[i++];
  }
  return out;
}

std::int64_t count_words(std::string_view text) {
  return text.empty() ? 0 : 1 + static_cast<std::int64_t>(std::count(text.begin(), text.end(), ' '));
}

std::uint64_t hash_text(std::string_view text, std::uint64_t seed) {
  std::uint64_t hash = derive_seed(seed, text.size());
  for (std::size_t i = 0; i < text.size(); i += sizeof(std::uint64_t)) {
    std::uint64_t word = 0;
    std::memcpy(&word, text.data() + i, std::min(sizeof word, text.size() - i));
    hash = mix64(hash ^ word) + 0x9e3779b97f4a7c15ULL;
  }
  return mix64(hash);
}

}  // namespace babelring
