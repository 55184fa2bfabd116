#pragma once

#include <bit>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>

/// Serializes protocol buffers by hand: each field is a tag (number and wire type), then the value.
/// Source: protobuf.dev/programming-guides/encoding.
namespace babelring::protobuf {

template <class Number>
std::string little_endian(Number number) {
  static_assert(std::endian::native == std::endian::little);
  std::string bytes(sizeof number, '\0');
  std::memcpy(bytes.data(), &number, sizeof number);
  return bytes;
}

enum class WireType { varint = 0, fixed64 = 1, bytes = 2, fixed32 = 5 };

inline std::string varint(std::uint64_t number) {
  std::string bytes;
  for (; number >= 0x80; number >>= 7) bytes += static_cast<char>(number | 0x80);
  return bytes += static_cast<char>(number);
}

inline std::string field(int number, WireType type, const std::string& value) {
  return varint(static_cast<std::uint64_t>(number) << 3 | static_cast<std::uint64_t>(type)) + value;
}

inline std::string varint_field(int number, std::uint64_t value) {
  return field(number, WireType::varint, varint(value));
}

/// A text, a message or packed numbers.
inline std::string bytes_field(int number, std::string_view bytes) {
  return field(number, WireType::bytes, varint(bytes.size()).append(bytes));
}

}  // namespace babelring::protobuf
