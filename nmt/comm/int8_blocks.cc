#include "nmt/comm/int8_blocks.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <limits>

#include "nmt/comm/also_for_avx2.h"

namespace babelring {
namespace {

constexpr float largest_code = 127;
constexpr std::uint32_t magnitude_bits = 0x7fffffff, infinity_bits = 0x7f800000;
/// 1.5 * 2^23: the sum of it and a small number has the number's nearest integer in its lowest bits.
constexpr float rounder = 12'582'912;

/// Writes the scale of a block and returns it. `largest` holds the bits of its largest magnitude.
float write_scale(std::uint32_t largest, std::byte* message) {
  const auto magnitude = std::bit_cast<float>(largest);
  float scale = magnitude / largest_code;
  if (largest >= infinity_bits) scale = std::numeric_limits<float>::quiet_NaN();
  if (scale < std::numeric_limits<float>::min()) scale = 0;
  std::memcpy(message, &scale, sizeof scale);
  return scale;
}

float read_scale(const std::byte* message) {
  float scale = 0;
  std::memcpy(&scale, message, sizeof scale);
  return scale;
}

}  // namespace

BABELRING_ALSO_FOR_AVX2
void encode_int8(const float* __restrict values, float* __restrict errors, std::int64_t count,
                 std::byte* __restrict message) {
  std::array<float, int8_block> sums;
  for (std::int64_t begin = 0; begin < count; begin += int8_block) {
    const std::int64_t size = std::min(int8_block, count - begin);
    std::uint32_t largest = 0;  // magnitudes compare like their bits
    for (std::int64_t i = 0; i < size; ++i) {
      const float sum = values[begin + i] + errors[begin + i];
      sums[static_cast<std::size_t>(i)] = sum;
      largest = std::max(largest, std::bit_cast<std::uint32_t>(sum) & magnitude_bits);
    }
    const float scale = write_scale(largest, message);
    auto* codes = reinterpret_cast<signed char*>(message + sizeof scale);
    message += int8_message_bytes(size);
    if (!(scale > 0)) {
      std::fill_n(codes, size, static_cast<signed char>(0));
      if (scale == 0) std::copy_n(sums.data(), size, errors + begin);
      continue;
    }
    const float inverse = largest_code / std::bit_cast<float>(largest);
    for (std::int64_t i = 0; i < size; ++i) {
      const float sum = sums[static_cast<std::size_t>(i)];
      const std::int32_t code =
          std::bit_cast<std::int32_t>(sum * inverse + rounder) - std::bit_cast<std::int32_t>(rounder);
      codes[i] = static_cast<signed char>(code);
      errors[begin + i] = sum - static_cast<float>(code) * scale;
    }
  }
}

BABELRING_ALSO_FOR_AVX2
void decode_int8(const std::byte* __restrict message, std::int64_t count, float* __restrict values) {
  for (std::int64_t begin = 0; begin < count; begin += int8_block) {
    const std::int64_t size = std::min(int8_block, count - begin);
    const float scale = read_scale(message);
    const auto* codes = reinterpret_cast<const signed char*>(message + sizeof scale);
    for (std::int64_t i = 0; i < size; ++i) values[begin + i] = static_cast<float>(codes[i]) * scale;
    message += int8_message_bytes(size);
  }
}

BABELRING_ALSO_FOR_AVX2
void decode_and_add_int8(const std::byte* __restrict message, std::int64_t count, float* __restrict values) {
  for (std::int64_t begin = 0; begin < count; begin += int8_block) {
    const std::int64_t size = std::min(int8_block, count - begin);
    const float scale = read_scale(message);
    const auto* codes = reinterpret_cast<const signed char*>(message + sizeof scale);
    for (std::int64_t i = 0; i < size; ++i) values[begin + i] += static_cast<float>(codes[i]) * scale;
    message += int8_message_bytes(size);
  }
}

}  // namespace babelring
