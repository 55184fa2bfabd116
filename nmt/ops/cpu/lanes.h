#pragma once

#include <cstdint>

#if defined(__AVX512F__) && defined(__AVX512BW__) && defined(__AVX512VL__) && defined(__AVX512DQ__)
#include "nmt/ops/cpu/lanes_avx512.h"
#else
#include "nmt/ops/cpu/lanes_basic.h"
#endif
#include "nmt/ops/cpu/dropout_mask.h"

/// Sixteen floats at a time, for kernels that go along rows: `Floats` is one AVX-512 register where the room is
/// compiled for a processor that has them, else an array for g++ to turn into narrower ones. Both headers give the same
/// functions: load_lanes, store_lanes (BFloat16 is widened on loading, rounded on storing), + - * /, multiply_add,
/// maximum, square_root, kept, positive_lanes, sum_of_lanes, largest_lane.
namespace babelring::cpu {

/// Calls body(first, lanes) for each 16 of `count` elements; `lanes` is AllLanes, and FirstLanes for what is left over.
template <class Body>
[[gnu::always_inline]] inline void for_lanes(std::int64_t count, Body&& body) {
  std::int64_t first = 0;
  for (; first + lane_count <= count; first += lane_count) body(first, AllLanes{});
  if (first < count) body(first, FirstLanes(count - first));
}

/// The same with a third argument: which of the lanes dropout keeps, as bits.
template <class Body>
[[gnu::always_inline]] inline void for_dropped_lanes(const DropoutRow& row, std::int64_t count, Body&& body) {
  constexpr std::uint32_t all = 0xffffU;
  if (!row.drops()) {
    for_lanes(count, [&](std::int64_t first, auto lanes) { body(first, lanes, all); });
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
  for_lanes(count - first, [&](std::int64_t part, auto lanes) {
    body(first + part, lanes, keep & all);
    keep >>= lane_count;
  });
}

/// e^x within 3e-7 of its value for x from -87 to 88, 0 or subnormal below, NaN for NaN: 2^n 2^f with n = round(x / ln
/// 2) and for 2^f the polynomial of degree 5 with the least relative error (7.5e-8) on [-1/2, 1/2].
inline Floats exponential(Floats x) {
  const Floats bounded = maximum(broadcast(-104.0f), x);
  const Floats to_integer = broadcast(12582912.0f);  // 1.5 * 2^23: what is added to it is rounded to an integer
  const Floats per_power = broadcast(1.44269504f),
               per_power_rest = broadcast(1.92596303e-8f);  // 1 / ln 2, in two parts
  const Floats n = multiply_add(bounded, per_power, to_integer) - to_integer;
  const Floats f = multiply_add(bounded, per_power_rest, multiply_add(bounded, per_power, broadcast(0.0f) - n));
  Floats p = multiply_add(f, broadcast(0.0013276472f), broadcast(0.00967554133f));
  p = multiply_add(p, f, broadcast(0.0555071327f));
  p = multiply_add(p, f, broadcast(0.240221197f));
  p = multiply_add(p, f, broadcast(0.693146967f));
  p = multiply_add(p, f, broadcast(1.00000007f));
  return scaled_by_power(p, n);
}

}  // namespace babelring::cpu
