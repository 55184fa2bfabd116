#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>

#include "nmt/core/tensor.h"

/// lanes.h on processors without AVX-512: plain loops of sixteen, which g++ turns into what vectors there are.
namespace babelring::cpu::BABELRING_KERNEL_SET {

inline constexpr std::int64_t lane_count = 16;

struct Vec16f {
  std::array<float, 16> values;
};

/// Which lanes are loaded or stored: all, or the first few; the others are loaded as 0.
struct AllLanes {
  static constexpr std::size_t count = 16;
};
struct FirstLanes {
  explicit FirstLanes(std::int64_t first_lanes) : count(static_cast<std::size_t>(first_lanes)) {}
  std::size_t count;
};

template <class Function>
[[gnu::always_inline]] inline Vec16f each_lane(Function&& function) {
  Vec16f result;
  for (std::size_t i = 0; i < 16; ++i) result.values[i] = function(i);
  return result;
}

inline Vec16f broadcast(float value) {
  return each_lane([&](std::size_t) { return value; });
}

template <class T, class Which>
inline Vec16f load_lanes(const T* from, Which mask) {
  Vec16f result{};
  for (std::size_t i = 0; i < mask.count; ++i) result.values[i] = static_cast<float>(from[i]);
  return result;
}
/// Returns x rounded to T.
template <class T>
inline Vec16f as_stored(const Vec16f& x) {
  return each_lane([&](std::size_t i) { return static_cast<float>(T(x.values[i])); });
}
/// BFloat16: to nearest, ties to even; NaN stays NaN.
template <class T, class Which>
inline void store_lanes(T* to, const Vec16f& x, Which mask) {
  for (std::size_t i = 0; i < mask.count; ++i) to[i] = T(x.values[i]);
}

/// A full store of values that are not read again soon; `to` is aligned to its 16 elements.
inline void stream_lanes(BFloat16* to, const Vec16f& x) {
  store_lanes(to, x, AllLanes{});
}

inline Vec16f operator+(const Vec16f& a, const Vec16f& b) {
  return each_lane([&](std::size_t i) { return a.values[i] + b.values[i]; });
}
inline Vec16f operator-(const Vec16f& a, const Vec16f& b) {
  return each_lane([&](std::size_t i) { return a.values[i] - b.values[i]; });
}
inline Vec16f operator*(const Vec16f& a, const Vec16f& b) {
  return each_lane([&](std::size_t i) { return a.values[i] * b.values[i]; });
}
inline Vec16f operator/(const Vec16f& a, const Vec16f& b) {
  return each_lane([&](std::size_t i) { return a.values[i] / b.values[i]; });
}
/// a b + c, rounded once or twice.
inline Vec16f multiply_add(const Vec16f& a, const Vec16f& b, const Vec16f& c) {
  return each_lane([&](std::size_t i) { return a.values[i] * b.values[i] + c.values[i]; });
}
/// a b + c, rounded once if the processor has an instruction for that. Unlike multiply_add(), the same bits in whole
/// vectors and in the first lanes of one: the compiler does not choose which of two products it fuses with their sum.
inline Vec16f fused(const Vec16f& a, const Vec16f& b, const Vec16f& c) {
#if defined(__FMA__)
  return each_lane([&](std::size_t i) { return __builtin_fmaf(a.values[i], b.values[i], c.values[i]); });
#else
  return multiply_add(a, b, c);
#endif
}
/// The larger; b where either is NaN.
inline Vec16f maximum(const Vec16f& a, const Vec16f& b) {
  return each_lane([&](std::size_t i) { return a.values[i] > b.values[i] ? a.values[i] : b.values[i]; });
}
inline Vec16f square_root(const Vec16f& x) {
  return each_lane([&](std::size_t i) { return std::sqrt(x.values[i]); });
}
/// x in the lanes whose bit of the lower 16 is set, 0 in the others.
inline Vec16f select(std::uint32_t mask, const Vec16f& x) {
  return each_lane([&](std::size_t i) { return (mask >> i & 1U) != 0 ? x.values[i] : 0.0f; });
}
/// x in the lanes that are loaded, `otherwise` in the others.
template <class Which>
inline Vec16f select(Which mask, const Vec16f& x, const Vec16f& otherwise = {}) {
  return each_lane([&](std::size_t i) { return i < mask.count ? x.values[i] : otherwise.values[i]; });
}
/// t - floor(t); 0 for an infinite t.
inline Vec16f above_floor(const Vec16f& t) {
  return each_lane([&](std::size_t i) { return t.values[i] < -1e9f ? 0.0f : t.values[i] - std::floor(t.values[i]); });
}
/// p 2^floor(t) for t up to 127; 0 where the power would be subnormal.
inline Vec16f scaled_by_power(const Vec16f& p, const Vec16f& t) {
  return each_lane([&](std::size_t i) {
    const float bounded = t.values[i] > -127.0f ? t.values[i] : -127.0f;
    const auto exponent = static_cast<std::int32_t>(std::floor(bounded));
    return p.values[i] * std::bit_cast<float>((exponent + 127) << 23);
  });
}
/// A bit for each lane that is loaded.
template <class Which>
inline std::uint32_t lanes_of(Which mask) {
  return (1U << mask.count) - 1;
}
/// A bit for each lane whose bits differ.
inline std::uint32_t different_lanes(const Vec16f& a, const Vec16f& b) {
  std::uint32_t lanes = 0;
  for (std::size_t i = 0; i < 16; ++i) {
    const bool differs = std::bit_cast<std::uint32_t>(a.values[i]) != std::bit_cast<std::uint32_t>(b.values[i]);
    lanes |= static_cast<std::uint32_t>(differs) << i;
  }
  return lanes;
}
/// A bit for each lane that is not 0; NaN is not.
inline std::uint32_t nonzero_lanes(const Vec16f& x) {
  std::uint32_t lanes = 0;
  for (std::size_t i = 0; i < 16; ++i) lanes |= static_cast<std::uint32_t>(x.values[i] != 0) << i;
  return lanes;
}
inline float sum_of_lanes(const Vec16f& x) {
  float sum = 0;
  for (const float value : x.values) sum += value;
  return sum;
}
inline float largest_lane(const Vec16f& x) {
  return *std::max_element(x.values.begin(), x.values.end());
}

}  // namespace babelring::cpu::BABELRING_KERNEL_SET
