#pragma once

#include <cuda_runtime_api.h>

#include <bit>
#include <cmath>
#include <cstdint>

/// The stored format; arithmetic is done in f32 throughout.
struct __nv_bfloat16 {
  std::uint16_t bits;
};
struct alignas(4) __nv_bfloat162 {
  __nv_bfloat16 x, y;
};

inline float __bfloat162float(__nv_bfloat16 value) {
  return std::bit_cast<float>(static_cast<std::uint32_t>(value.bits) << 16);
}
/// To nearest, ties to even; every NaN becomes the same.
inline __nv_bfloat16 __float2bfloat16_rn(float value) {
  const auto raw = std::bit_cast<std::uint32_t>(value);
  if ((raw & 0x7fffffffU) > 0x7f800000U) return {0x7fff};
  return {static_cast<std::uint16_t>((raw + 0x7fffU + ((raw >> 16) & 1U)) >> 16)};
}
inline __nv_bfloat16 __float2bfloat16(float value) {
  return __float2bfloat16_rn(value);
}
inline __nv_bfloat162 __floats2bfloat162_rn(float x, float y) {
  return {__float2bfloat16_rn(x), __float2bfloat16_rn(y)};
}
/// The larger of each half; of a number and a NaN the number.
inline __nv_bfloat162 __hmax2(__nv_bfloat162 a, __nv_bfloat162 b) {
  const auto larger = [](__nv_bfloat16 one, __nv_bfloat16 other) {
    return __float2bfloat16_rn(fmaxf(__bfloat162float(one), __bfloat162float(other)));
  };
  return {larger(a.x, b.x), larger(a.y, b.y)};
}
