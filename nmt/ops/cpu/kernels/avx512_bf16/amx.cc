#include "nmt/ops/cpu/kernels/avx512_bf16/amx.h"

#include <immintrin.h>

#include <algorithm>
#include <cstring>

namespace babelring::cpu::BABELRING_KERNEL_SET {
namespace {

constexpr std::int64_t half = 16;  // rows of a tile

/// The first `count` (0 to 32) of 32 elements of 16 bits.
__mmask32 first_elements(std::int64_t count) {
  return count >= 32 ? 0xffffffffU : count <= 0 ? 0U : (1U << count) - 1U;
}

__m512i load_row(const BFloat16* row, __mmask32 mask) {
  return _mm512_maskz_loadu_epi16(mask, row);
}

/// 16 rows of 64 bytes, `stride` bytes apart, as columns: out[c] holds the double word c of each row, in the rows'
/// order.
void transpose(const char* rows, std::int64_t stride, __m512i (&out)[16]) {
  for (int group = 0; group < 4; ++group) {  // of four double words
    __m512i parts[4];                        // 128-bit lane l of parts[j]: row 4 l + j
    for (int j = 0; j < 4; ++j) {
      const char* from = rows + j * stride + group * 16;
      const auto part = [&](int lane) {
        return _mm_loadu_si128(static_cast<const __m128i*>(static_cast<const void*>(from + 4 * lane * stride)));
      };
      __m512i value = _mm512_castsi128_si512(part(0));
      value = _mm512_inserti32x4(value, part(1), 1);
      value = _mm512_inserti32x4(value, part(2), 2);
      parts[j] = _mm512_inserti32x4(value, part(3), 3);
    }
    const __m512i low01 = _mm512_unpacklo_epi32(parts[0], parts[1]), high01 = _mm512_unpackhi_epi32(parts[0], parts[1]);
    const __m512i low23 = _mm512_unpacklo_epi32(parts[2], parts[3]), high23 = _mm512_unpackhi_epi32(parts[2], parts[3]);
    out[4 * group] = _mm512_unpacklo_epi64(low01, low23);
    out[4 * group + 1] = _mm512_unpackhi_epi64(low01, low23);
    out[4 * group + 2] = _mm512_unpacklo_epi64(high01, high23);
    out[4 * group + 3] = _mm512_unpackhi_epi64(high01, high23);
  }
}

/// Rows [0, count) of `columns` elements as 16 full rows of 64 bytes in `block`, the rest zeros.
void pad_rows(const BFloat16* rows, std::int64_t stride, std::int64_t count, std::int64_t columns, char* block) {
  const __mmask32 mask = first_elements(columns);
  for (std::int64_t i = 0; i < half; ++i) {
    _mm512_store_si512(block + 64 * i, i < count ? load_row(rows + i * stride, mask) : _mm512_setzero_si512());
  }
}

/// transpose() of a block whose rows or columns may end early.
void transpose_part(const BFloat16* rows, std::int64_t stride, std::int64_t count, std::int64_t columns,
                    __m512i (&out)[16]) {
  if (count >= half && columns >= 32) {
    transpose(static_cast<const char*>(static_cast<const void*>(rows)), 2 * stride, out);
    return;
  }
  alignas(64) char block[tile_bytes];
  pad_rows(rows, stride, count, columns, block);
  transpose(block, 64, out);
}

/// Word indices for _mm512_permutex2var_epi16: element i of the result is element pick(i) of the first operand, or 32 +
/// e for element e of the second.
template <class Pick>
__m512i word_indices(Pick pick) {
  alignas(64) std::uint16_t indices[32];
  for (int i = 0; i < 32; ++i) indices[i] = static_cast<std::uint16_t>(pick(i));
  return _mm512_load_si512(indices);
}

}  // namespace

void pack_rows(const BFloat16* a, std::int64_t stride, std::int64_t count, std::int64_t depth, char* step) {
  const __mmask32 mask = first_elements(depth);
  for (std::int64_t i = 0; i < panel_width; ++i) {
    _mm512_store_si512(step + 64 * i, i < count ? load_row(a + i * stride, mask) : _mm512_setzero_si512());
  }
}

void pack_rows_transposed(const BFloat16* a, std::int64_t stride, std::int64_t count, std::int64_t depth, char* step) {
  // A double word holds two neighbouring rows i of the result, at one k: the last shuffle takes them apart.
  const __m512i even = word_indices([](int i) { return i < 16 ? 2 * i : 32 + 2 * (i - 16); });
  const __m512i odd = word_indices([](int i) { return i < 16 ? 2 * i + 1 : 32 + 2 * (i - 16) + 1; });
  __m512i first[16], second[16];
  transpose_part(a, stride, depth, count, first);
  transpose_part(a + half * stride, stride, depth - half, count, second);
  for (int pair = 0; pair < 16; ++pair) {
    _mm512_store_si512(step + 128 * pair, _mm512_permutex2var_epi16(first[pair], even, second[pair]));
    _mm512_store_si512(step + 128 * pair + 64, _mm512_permutex2var_epi16(first[pair], odd, second[pair]));
  }
}

void pack_columns(const BFloat16* b, std::int64_t stride, std::int64_t count, std::int64_t depth, char* step) {
  const __mmask32 mask = first_elements(count);
  const __m512i left = word_indices([](int i) { return i / 2 + (i % 2 == 0 ? 0 : 32); });
  const __m512i right = word_indices([](int i) { return 16 + i / 2 + (i % 2 == 0 ? 0 : 32); });
  for (std::int64_t p = 0; p < 32; p += 2) {
    const __m512i above = p < depth ? load_row(b + p * stride, mask) : _mm512_setzero_si512();
    const __m512i below = p + 1 < depth ? load_row(b + (p + 1) * stride, mask) : _mm512_setzero_si512();
    _mm512_store_si512(step + 32 * p, _mm512_permutex2var_epi16(above, left, below));
    _mm512_store_si512(step + 32 * p + tile_bytes, _mm512_permutex2var_epi16(above, right, below));
  }
}

void pack_columns_transposed(const BFloat16* b, std::int64_t stride, std::int64_t count, std::int64_t depth,
                             char* step) {
  for (std::int64_t j = 0; j < panel_width; j += half) {
    __m512i pairs[16];
    transpose_part(b + j * stride, stride, count - j, depth, pairs);
    for (int i = 0; i < 16; ++i) _mm512_store_si512(step + 64 * (j + i), pairs[i]);
  }
}

}  // namespace babelring::cpu::BABELRING_KERNEL_SET
