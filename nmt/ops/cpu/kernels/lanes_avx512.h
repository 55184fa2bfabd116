#pragma once

#include <immintrin.h>

#include <cstdint>
#include <type_traits>

#include "nmt/core/tensor.h"

/// lanes.h on processors with AVX-512.
namespace babelring::cpu::BABELRING_KERNEL_SET {

inline constexpr std::int64_t lane_count = 16;

struct Vec16f {
  __m512 values;
};

/// Which lanes are loaded or stored: all, or the first few; the others are loaded as 0.
struct AllLanes {};
struct FirstLanes {
  explicit FirstLanes(std::int64_t count) : bits(static_cast<__mmask16>((1U << count) - 1)) {}
  __mmask16 bits;
};

inline Vec16f broadcast(float value) {
  return {_mm512_set1_ps(value)};
}

inline Vec16f load_lanes(const float* from, AllLanes) {
  return {_mm512_loadu_ps(from)};
}
inline Vec16f load_lanes(const float* from, FirstLanes mask) {
  return {_mm512_maskz_loadu_ps(mask.bits, from)};
}
inline Vec16f widened(__m256i bits) {
  return {_mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(bits), 16))};
}
inline Vec16f load_lanes(const BFloat16* from, AllLanes) {
  return widened(_mm256_loadu_si256(static_cast<const __m256i_u*>(static_cast<const void*>(from))));
}
inline Vec16f load_lanes(const BFloat16* from, FirstLanes mask) {
  return widened(_mm256_maskz_loadu_epi16(mask.bits, from));
}

/// To nearest, ties to even; NaN stays NaN.
inline __m256i narrowed(Vec16f x) {
#if defined(__AVX512BF16__)
  // Subnormal numbers become 0.
  return reinterpret_cast<__m256i>(_mm512_cvtneps_pbh(x.values));
#else
  const __m512i raw = _mm512_castps_si512(x.values);
  const __m512i odd = _mm512_and_si512(_mm512_srli_epi32(raw, 16), _mm512_set1_epi32(1));
  const __m512i up = _mm512_add_epi32(_mm512_add_epi32(raw, _mm512_set1_epi32(0x7fff)), odd);
  const __mmask16 nan = _mm512_cmp_ps_mask(x.values, x.values, _CMP_UNORD_Q);
  const __m512i rounded = _mm512_mask_or_epi32(up, nan, raw, _mm512_set1_epi32(0x400000));
  return _mm512_cvtepi32_epi16(_mm512_srli_epi32(rounded, 16));
#endif
}

/// Returns x rounded to T.
template <class T>
inline Vec16f as_stored(Vec16f x) {
  if constexpr (std::is_same_v<T, BFloat16>) return widened(narrowed(x));
  return x;
}

inline void store_lanes(float* to, Vec16f x, AllLanes) {
  _mm512_storeu_ps(to, x.values);
}
inline void store_lanes(float* to, Vec16f x, FirstLanes mask) {
  _mm512_mask_storeu_ps(to, mask.bits, x.values);
}
inline void store_lanes(BFloat16* to, Vec16f x, AllLanes) {
  _mm256_storeu_si256(static_cast<__m256i_u*>(static_cast<void*>(to)), narrowed(x));
}
inline void store_lanes(BFloat16* to, Vec16f x, FirstLanes mask) {
  _mm256_mask_storeu_epi16(to, mask.bits, narrowed(x));
}

/// A full store past the caches, for values that are not read again soon; `to` is aligned to its 16 elements.
inline void stream_lanes(BFloat16* to, Vec16f x) {
  _mm256_stream_si256(static_cast<__m256i*>(static_cast<void*>(to)), narrowed(x));
}

inline Vec16f operator+(Vec16f a, Vec16f b) {
  return {a.values + b.values};
}
inline Vec16f operator-(Vec16f a, Vec16f b) {
  return {a.values - b.values};
}
/// By mask, so that g++ does not contract it with a sum to a fused multiply-add: x y - x y would not be 0.
inline Vec16f operator*(Vec16f a, Vec16f b) {
  return {_mm512_maskz_mul_ps(0xffff, a.values, b.values)};
}
inline Vec16f operator/(Vec16f a, Vec16f b) {
  return {a.values / b.values};
}
/// a b + c, rounded once.
inline Vec16f multiply_add(Vec16f a, Vec16f b, Vec16f c) {
  return {_mm512_fmadd_ps(a.values, b.values, c.values)};
}
/// The same; see lanes_basic.h.
inline Vec16f fused(Vec16f a, Vec16f b, Vec16f c) {
  return multiply_add(a, b, c);
}
/// The larger; b where either is NaN.
inline Vec16f maximum(Vec16f a, Vec16f b) {
  return {_mm512_max_ps(a.values, b.values)};
}
inline Vec16f square_root(Vec16f x) {
  return {_mm512_maskz_sqrt_ps(0xffff, x.values)};
}
/// x in the lanes whose bit of the lower 16 is set, 0 in the others.
inline Vec16f select(std::uint32_t mask, Vec16f x) {
  return {_mm512_maskz_mov_ps(static_cast<__mmask16>(mask), x.values)};
}
/// x in the lanes that are loaded, `otherwise` in the others.
inline Vec16f select(AllLanes, Vec16f x, Vec16f = broadcast(0)) {
  return x;
}
inline Vec16f select(FirstLanes mask, Vec16f x, Vec16f otherwise = broadcast(0)) {
  return {_mm512_mask_mov_ps(otherwise.values, mask.bits, x.values)};
}
/// t - floor(t); 0 for an infinite t.
inline Vec16f above_floor(Vec16f t) {
  return {_mm512_maskz_reduce_ps(0xffff, t.values, _MM_FROUND_TO_NEG_INF | _MM_FROUND_NO_EXC)};
}
/// p 2^floor(t).
inline Vec16f scaled_by_power(Vec16f p, Vec16f t) {
  return {_mm512_maskz_scalef_ps(0xffff, p.values, t.values)};
}
/// A bit for each lane that is loaded.
inline std::uint32_t lanes_of(AllLanes) {
  return 0xffffU;
}
inline std::uint32_t lanes_of(FirstLanes mask) {
  return mask.bits;
}
/// A bit for each lane whose bits differ.
inline std::uint32_t different_lanes(Vec16f a, Vec16f b) {
  return _mm512_cmpneq_epi32_mask(_mm512_castps_si512(a.values), _mm512_castps_si512(b.values));
}
/// A bit for each lane that is not 0; NaN is not.
inline std::uint32_t nonzero_lanes(Vec16f x) {
  return _mm512_cmp_ps_mask(x.values, _mm512_setzero_ps(), _CMP_NEQ_UQ);
}
inline float sum_of_lanes(Vec16f x) {
  return _mm512_reduce_add_ps(x.values);
}
inline float largest_lane(Vec16f x) {
  return _mm512_reduce_max_ps(x.values);
}

}  // namespace babelring::cpu::BABELRING_KERNEL_SET
