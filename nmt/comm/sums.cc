#include "nmt/comm/sums.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <limits>
#include <span>

namespace babelring {

std::int64_t wire_bytes(GradientWire wire, std::int64_t count) {
  if (wire == GradientWire::int8) return int8_message_bytes(count);
  return count * (wire == GradientWire::bf16 ? 2 : 4);
}

std::int64_t elements_in_message(GradientWire wire, std::int64_t bytes) {
  if (wire == GradientWire::int8) return bytes / int8_message_bytes(int8_block) * int8_block;
  return bytes / wire_bytes(wire, 1);
}

void encode(GradientWire wire, const float* values, float* errors, std::int64_t count, void* message) {
  if (wire == GradientWire::int8) return encode_int8(values, errors, count, static_cast<std::byte*>(message));
  if (wire == GradientWire::bf16) return convert(values, static_cast<BFloat16*>(message), count);
  std::copy_n(values, count, static_cast<float*>(message));
}

void decode(GradientWire wire, const void* message, std::int64_t count, float* values) {
  if (wire == GradientWire::int8) return decode_int8(static_cast<const std::byte*>(message), count, values);
  if (wire == GradientWire::bf16) return convert(static_cast<const BFloat16*>(message), values, count);
  std::copy_n(static_cast<const float*>(message), count, values);
}

void decode_and_add(GradientWire wire, const void* message, std::int64_t count, float* values) {
  if (wire == GradientWire::int8) return decode_and_add_int8(static_cast<const std::byte*>(message), count, values);
  if (wire == GradientWire::bf16) return add_in_place(values, static_cast<const BFloat16*>(message), count);
  add_in_place(values, static_cast<const float*>(message), count);
}

}  // namespace babelring

// Compiles a function a second time for AVX2; the linker chooses at the start. The sanitizers are not ready by then.
#if defined(__x86_64__) && !defined(__SANITIZE_THREAD__) && !defined(__SANITIZE_ADDRESS__)
#define BABELRING_ALSO_FOR_AVX2 [[gnu::target_clones("avx2", "default")]]
#else
#define BABELRING_ALSO_FOR_AVX2
#endif

namespace babelring {

BABELRING_ALSO_FOR_AVX2
void add_in_place(float* __restrict sum, const float* __restrict addend, std::int64_t count) {
  for (std::int64_t i = 0; i < count; ++i) sum[i] += addend[i];
}

BABELRING_ALSO_FOR_AVX2
void add_in_place(float* __restrict sum, const BFloat16* __restrict addend, std::int64_t count) {
  for (std::int64_t i = 0; i < count; ++i) sum[i] += static_cast<float>(addend[i]);
}

BABELRING_ALSO_FOR_AVX2
void convert(const float* __restrict from, BFloat16* __restrict to, std::int64_t count) {
  for (std::int64_t i = 0; i < count; ++i) to[i] = BFloat16(from[i]);
}

BABELRING_ALSO_FOR_AVX2
void convert(const BFloat16* __restrict from, float* __restrict to, std::int64_t count) {
  for (std::int64_t i = 0; i < count; ++i) to[i] = static_cast<float>(from[i]);
}

namespace {

constexpr std::int64_t block = 1024;  // a block and its sums fit into the L1 cache
using Block = std::array<float, block>;

/// sums = parts[first] + … of `count` parts, in pairs, for `size` elements from `offset` on.
void sum_in_tree(const std::vector<float*>& parts, std::size_t first, std::size_t count, std::int64_t offset,
                 std::int64_t size, float* sums) {
  if (count == 1) {
    std::copy_n(parts[first] + offset, size, sums);
    return;
  }
  sum_in_tree(parts, first, count / 2, offset, size, sums);
  if (count == 2) return add_in_place(sums, parts[first + 1] + offset, size);
  Block right;
  sum_in_tree(parts, first + count / 2, count - count / 2, offset, size, right.data());
  add_in_place(sums, right.data(), size);
}

/// Sums elements [begin, begin + count) of `parts` and writes the sums to every target. Targets may be parts.
void sum_into(const std::vector<float*>& parts, std::span<float* const> targets, std::int64_t begin, std::int64_t count,
              AddOrder order) {
  Block sums;
  for (std::int64_t offset = begin; offset < begin + count; offset += block) {
    const std::int64_t size = std::min(block, begin + count - offset);
    if (order == AddOrder::tree) {
      sum_in_tree(parts, 0, parts.size(), offset, size, sums.data());
    } else {
      std::copy_n(parts[0] + offset, size, sums.data());
      for (std::size_t part = 1; part < parts.size(); ++part) add_in_place(sums.data(), parts[part] + offset, size);
    }
    for (float* target : targets) std::copy_n(sums.data(), size, target + offset);
  }
}

}  // namespace

void sum_into_all(const std::vector<float*>& parts, std::int64_t begin, std::int64_t count, AddOrder order) {
  sum_into(parts, parts, begin, count, order);
}

void sum_into_one(const std::vector<float*>& parts, float* target, std::int64_t begin, std::int64_t count,
                  AddOrder order) {
  sum_into(parts, std::span(&target, 1), begin, count, order);
}

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
