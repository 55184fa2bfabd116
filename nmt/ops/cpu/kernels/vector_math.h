#pragma once

#include <bit>
#include <cstdint>

#include "nmt/core/tensor.h"

/// Scalars that gcc turns into vectors: every function here is branch-free and inlined into the loops of the kernels.
namespace babelring::cpu::BABELRING_KERNEL_SET {

inline float load(float value) {
  return value;
}
inline float load(BFloat16 value) {
  return static_cast<float>(value);
}

template <class T>
inline T rounded(float value) {
  return T(value);
}

template <class T>
inline void widen(const T* from, float* to, std::int64_t count) {
#pragma omp simd
  for (std::int64_t i = 0; i < count; ++i) to[i] = load(from[i]);
}

/// e^x to about 2 units in the last place; 0 below -87.3, where the result would be subnormal; no infinity: x is at
/// most 88. Cody-Waite reduction by ln 2 in two parts and the Taylor series of degree 7 on [-ln 2 / 2, ln 2 / 2].
inline float exponential(float x) {
  const float bounded = x < -87.3f ? -87.3f : (x > 88.0f ? 88.0f : x);
  const float shifted = bounded * 1.44269504f + 12582912.0f;  // 1.5 * 2^23: the integer lands in the low bits
  const float n = shifted - 12582912.0f;
  const float r = (bounded - n * 0.693359375f) + n * 2.12194440e-4f;
  float p = 1.0f / 5040.0f;
  p = p * r + 1.0f / 720.0f;
  p = p * r + 1.0f / 120.0f;
  p = p * r + 1.0f / 24.0f;
  p = p * r + 1.0f / 6.0f;
  p = p * r + 0.5f;
  p = p * r + 1.0f;
  p = p * r + 1.0f;
  const std::int32_t exponent = std::bit_cast<std::int32_t>(shifted) - 0x4b400000;
  const float power = std::bit_cast<float>((exponent + 127) << 23);
  return x < -87.3f ? 0.0f : p * power;
}

/// Calls function(T{}) with the element type of a floating tensor.
template <class Function>
inline void with_float_type(DType type, Function&& function) {
  if (type == DType::bf16) {
    function(BFloat16{});
  } else {
    function(float{});
  }
}

}  // namespace babelring::cpu::BABELRING_KERNEL_SET
