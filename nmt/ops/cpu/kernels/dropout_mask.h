#pragma once

#if defined(__AVX512F__)
#include <immintrin.h>
#endif

#include <algorithm>
#include <array>
#include <cstdint>

#include "nmt/core/random.h"

namespace babelring::cpu::BABELRING_KERNEL_SET {

/// Which elements of one row dropout keeps, as masks: bit i of keep(first) is set where column first + i is kept.
/// Multiply kept elements by scale(). Two neighbouring columns share one hash, whose halves are compared with the
/// threshold. Cheap to make: a 64-bit hash of the row.
class DropoutRow {
 public:
  static constexpr std::int64_t mask_columns = 32;

  DropoutRow(const DropoutKey& key, std::int64_t row)
      : row_key_(key.row_key(row)), threshold_(key.threshold()), scale_(key.scale()) {}

  /// False: every mask is full and scale() is 1.
  bool drops() const { return threshold_ > 0; }
  float scale() const { return scale_; }

  /// Columns [first, first + 32), whether the row has them or not; `first` is even.
#if defined(__AVX512F__) && defined(__AVX512BW__)
  std::uint32_t keep(std::int64_t first) const {  // in about ten instructions
    const __m512i column_keys =
        _mm512_mullo_epi32(_mm512_set_epi32(15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0),
                           _mm512_set1_epi32(static_cast<int>(DropoutKey::pair_factor)));  // a constant
    __m512i x = _mm512_add_epi32(column_keys, _mm512_set1_epi32(static_cast<int>(first_key(first))));
    x = _mm512_xor_si512(x, _mm512_set1_epi32(static_cast<int>(row_key_)));
    x = _mm512_xor_si512(x, shifted_right<16>(x));
    x = _mm512_mullo_epi32(x, _mm512_set1_epi32(0x7feb352d));
    x = _mm512_xor_si512(x, shifted_right<15>(x));
    x = _mm512_mullo_epi32(x, _mm512_set1_epi32(static_cast<int>(0x846ca68bU)));
    x = _mm512_xor_si512(x, shifted_right<16>(x));
    return _mm512_cmpge_epu16_mask(x, _mm512_set1_epi16(static_cast<std::int16_t>(threshold_)));
  }
#else
  std::uint32_t keep(std::int64_t first) const {
    std::array<std::uint32_t, 16> hashes;
#pragma omp simd
    for (std::uint32_t pair = 0; pair < 16; ++pair) {
      hashes[pair] = mix32(row_key_ ^ (first_key(first) + pair * DropoutKey::pair_factor));
    }
    std::uint32_t mask = 0;
    for (std::uint32_t pair = 0; pair < 16; ++pair) {
      mask |= static_cast<std::uint32_t>((hashes[pair] & 0xffffU) >= threshold_) << (2 * pair);
      mask |= static_cast<std::uint32_t>((hashes[pair] >> 16) >= threshold_) << (2 * pair + 1);
    }
    return mask;
  }
#endif

 private:
#if defined(__AVX512F__)
  // All lanes by mask: g++ 12 warns of the unmasked intrinsic (GCC bug 105593).
  template <int bits>
  static __m512i shifted_right(__m512i x) {
    return _mm512_maskz_srli_epi32(0xffff, x, bits);
  }
#endif
  static std::uint32_t first_key(std::int64_t first) {
    return static_cast<std::uint32_t>(first >> 1) * DropoutKey::pair_factor;
  }

  std::uint32_t row_key_, threshold_;
  float scale_;
};

/// Calls body(first, count, factors) for runs of a row's columns; factors[i], 0 or the scale, belongs to column first +
/// i.
template <class Body>
inline void for_dropout_runs(const DropoutKey& key, std::int64_t row, std::int64_t columns, Body&& body) {
  constexpr std::int64_t run_columns = 256;
  std::array<float, run_columns> factors;
  const DropoutRow dropout(key, row);
  factors.fill(1.0f);
  for (std::int64_t first = 0; first < columns; first += run_columns) {
    const std::int64_t count = std::min(run_columns, columns - first);
    for (std::int64_t part = 0; dropout.drops() && part < count; part += DropoutRow::mask_columns) {
      const std::uint32_t keep = dropout.keep(first + part);
      float* to = factors.data() + part;
#pragma omp simd
      for (std::uint32_t i = 0; i < 32; ++i) to[i] = (keep >> i & 1U) != 0 ? dropout.scale() : 0.0f;
    }
    body(first, count, factors.data());
  }
}

}  // namespace babelring::cpu::BABELRING_KERNEL_SET
