#pragma once

#include <cstddef>
#include <cstdint>

namespace babelring {

/// Elements that share a scale.
inline constexpr std::int64_t int8_block = 256;

/// Bytes of a message of `count` elements: for each block, of which the last may be shorter, an f32 scale and then a
/// byte for each element.
constexpr std::int64_t int8_message_bytes(std::int64_t count) {
  return count + (count + int8_block - 1) / int8_block * std::int64_t{sizeof(float)};
}

/// Rounds v = values + errors to multiples q of a scale, |q| <= 127, and sets errors to v - q * scale. The scale of a
/// block is its largest |v| / 127, so the new |errors| are at most half of it. A block whose largest |v| is below 127
/// times the smallest normal number is sent as zeros; one with a value that is not finite is sent as NaN, and keeps its
/// errors. The ranges must not overlap.
void encode_int8(const float* values, float* errors, std::int64_t count, std::byte* message);
/// values = q * scale, or values += q * scale. The ranges must not overlap.
void decode_int8(const std::byte* message, std::int64_t count, float* values);
void decode_and_add_int8(const std::byte* message, std::int64_t count, float* values);

}  // namespace babelring
