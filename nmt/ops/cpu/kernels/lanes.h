#pragma once

#include <cstdint>

#if defined(__AVX512F__) && defined(__AVX512BW__) && defined(__AVX512VL__) && defined(__AVX512DQ__)
#include "nmt/ops/cpu/kernels/lanes_avx512.h"
#else
#include "nmt/ops/cpu/kernels/lanes_basic.h"
#endif
#include "nmt/ops/cpu/kernels/dropout_mask.h"

/// Vectors of sixteen floats for kernels that go along rows. `Vec16f` is an AVX-512 register if the kernels are
/// compiled for AVX-512 (lanes_avx512.h), otherwise an array, which g++ compiles to narrower registers (lanes_basic.h).
/// Both headers define the same functions: load_lanes and store_lanes (BFloat16 is widened when loaded and rounded when
/// stored), + - * /, multiply_add, fused, maximum, square_root, select, lanes_of, different_lanes, nonzero_lanes,
/// sum_of_lanes, largest_lane.
namespace babelring::cpu::BABELRING_KERNEL_SET {

/// Calls body(first, mask) for each 16 of `count` elements. `mask` is AllLanes, or FirstLanes for the remaining
/// elements.
template <class Body>
[[gnu::always_inline]] inline void for_lanes(std::int64_t count, Body&& body) {
  std::int64_t first = 0;
  for (; first + lane_count <= count; first += lane_count) body(first, AllLanes{});
  if (first < count) body(first, FirstLanes(count - first));
}

/// Calls body(first, mask, keep) in the same way. Bit i of `keep` is set if dropout keeps lane i.
template <class Body>
[[gnu::always_inline]] inline void for_dropped_lanes(const DropoutRow& row, std::int64_t count, Body&& body) {
  constexpr std::uint32_t all = 0xffffU;
  if (!row.drops()) {
    for_lanes(count, [&](std::int64_t first, auto mask) { body(first, mask, all); });
    return;
  }
  std::int64_t first = 0;
  for (; first + 2 * lane_count <= count; first += 2 * lane_count) {
    const std::uint32_t keep = row.keep(first);
    body(first, AllLanes{}, keep & all);
    body(first + lane_count, AllLanes{}, keep >> lane_count);
  }
  if (first == count) return;
  std::uint32_t keep = row.keep(first);
  for_lanes(count - first, [&](std::int64_t part, auto mask) {
    body(first + part, mask, keep & all);
    keep >>= lane_count;
  });
}

/// 2^t with a relative error of up to 3e-7; 1 for 0, 0 or subnormal below -126, NaN for NaN. Uses the polynomial of
/// degree 5 with the smallest relative error on [0, 1], 7.5e-8, shifted to be 1 at 0.
inline Vec16f power_of_two(Vec16f t) {
  const Vec16f f = above_floor(t);
  Vec16f p = multiply_add(f, broadcast(0.00187757667f), broadcast(0.00898934009f));
  p = multiply_add(p, f, broadcast(0.0558263181f));
  p = multiply_add(p, f, broadcast(0.240153617f));
  p = multiply_add(p, f, broadcast(0.693153073f));
  p = multiply_add(p, f, broadcast(1.0f));
  return scaled_by_power(p, t);
}

}  // namespace babelring::cpu::BABELRING_KERNEL_SET
