#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace babelring {

enum class DType : std::uint8_t { f32, bf16, i32 };

constexpr std::size_t size_of(DType type) {
  return type == DType::bf16 ? 2 : 4;
}

constexpr std::string_view name_of(DType type) {
  switch (type) {
    case DType::f32:
      return "f32";
    case DType::bf16:
      return "bf16";
    case DType::i32:
      return "i32";
  }
  return "?";
}

/// bfloat16: the upper 16 bits of an f32 (1 sign, 8 exponent and 7 fraction bits). Storage only; convert to float to
/// compute.
struct BFloat16 {
  std::uint16_t bits = 0;

  BFloat16() = default;
  /// Rounds to nearest, ties to even; NaN stays NaN.
  explicit BFloat16(float value) {
    const auto raw = std::bit_cast<std::uint32_t>(value);
    const bool nan = (raw & 0x7fffffffu) > 0x7f800000u;
    bits = nan ? static_cast<std::uint16_t>((raw >> 16) | 0x40u)
               : static_cast<std::uint16_t>((raw + 0x7fffu + ((raw >> 16) & 1u)) >> 16);
  }
  explicit operator float() const { return std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16); }
};

template <class T>
inline constexpr DType dtype_of = DType::f32;
template <>
inline constexpr DType dtype_of<BFloat16> = DType::bf16;
template <>
inline constexpr DType dtype_of<std::int32_t> = DType::i32;

}  // namespace babelring
