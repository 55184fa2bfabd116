#pragma once

#include <immintrin.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>

#include "nmt/ops/cpu/kernels/avx512_bf16/amx.h"

/// Matmuls of small matrices in tiles, and how to lay their factors out. A tile of bf16 is 1024 bytes: 16 rows of 32
/// numbers, or of 16 pairs.
namespace babelring::cpu::BABELRING_KERNEL_SET {

inline constexpr std::int64_t tile_rows = 16, tile_depth = 32;

inline std::int64_t blocks(std::int64_t count, std::int64_t size) {
  return (count + size - 1) / size;
}

/// bf16 matrix in tiles: rows of a tile are `stride` bytes apart, the tile below begins `down` bytes on, the next one
/// to the right `right` bytes.
struct TileMatrix {
  const std::byte* data;
  std::int64_t stride, down, right;
};

/// Rows x columns (1 or 2 each) tiles of C, summed over `depth` tiles of A's columns.
template <int rows, int columns>
inline void multiply_tiles(std::int64_t depth, const TileMatrix& a, const TileMatrix& b, std::byte* c,
                           std::int64_t stride) {
  constexpr bool two_rows = rows == 2, two_columns = columns == 2;
  std::byte *below = c + tile_rows * stride, *beside = c + 64;
  tile_zero<0>();
  if constexpr (two_columns) tile_zero<1>();
  if constexpr (two_rows) tile_zero<2>();
  if constexpr (two_rows && two_columns) tile_zero<3>();
  for (std::int64_t k = 0; k < depth; ++k) {
    const std::byte *of_a = a.data + k * a.right, *of_b = b.data + k * b.down;
    tile_load<4>(of_a, a.stride);
    tile_load<6>(of_b, b.stride);
    tile_multiply<0, 4, 6>();
    if constexpr (two_columns) {
      tile_load<7>(of_b + b.right, b.stride);
      tile_multiply<1, 4, 7>();
    }
    if constexpr (two_rows) {
      tile_load<5>(of_a + a.down, a.stride);
      tile_multiply<2, 5, 6>();
      if constexpr (two_columns) tile_multiply<3, 5, 7>();
    }
  }
  tile_store<0>(c, stride);
  if constexpr (two_columns) tile_store<1>(beside, stride);
  if constexpr (two_rows) tile_store<2>(below, stride);
  if constexpr (two_rows && two_columns) tile_store<3>(below + 64, stride);
}

/// C = A B in f32, extents in tiles, at most 2 columns; `stride` bytes lie between C's rows.
inline void multiply(std::int64_t rows, std::int64_t columns, std::int64_t depth, TileMatrix a, const TileMatrix& b,
                     float* c, std::int64_t stride) {
  auto* out = reinterpret_cast<std::byte*>(c);
  for (std::int64_t i = 0; i < rows; i += 2, a.data += 2 * a.down, out += 2 * tile_rows * stride) {
    if (i + 1 < rows) {
      columns == 2 ? multiply_tiles<2, 2>(depth, a, b, out, stride) : multiply_tiles<2, 1>(depth, a, b, out, stride);
    } else {
      columns == 2 ? multiply_tiles<1, 2>(depth, a, b, out, stride) : multiply_tiles<1, 1>(depth, a, b, out, stride);
    }
  }
}

inline constexpr std::int64_t largest_row = 4096;
alignas(64) inline constexpr std::array<std::byte, largest_row> zero_row{};

/// bf16 rows in memory, `stride` bytes apart, each a multiple of 64 bytes; rows from `count` on are zeros.
struct Rows {
  const std::byte* first;
  std::int64_t stride, count;

  const std::byte* row(std::int64_t i) const { return i < count ? first + i * stride : zero_row.data(); }
};

using RowPointers = std::array<const std::byte*, 16>;

inline RowPointers pointers(const Rows& rows, std::int64_t first) {
  RowPointers at;
  for (std::int64_t i = 0; i < 16; ++i) {
    at[static_cast<std::size_t>(i)] = rows.row(first + i);
  }
  return at;
}

inline __m128i quarter_vector(const std::byte* from) {
  return _mm_loadu_si128(reinterpret_cast<const __m128i*>(from));
}
inline __m256i half_vector(const std::byte* from) {
  return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(from));
}

/// 16 bytes of each of four rows.
inline __m512i quarter_rows(const std::byte* a, const std::byte* b, const std::byte* c, const std::byte* d) {
  __m512i all = _mm512_castsi128_si512(quarter_vector(a));
  all = _mm512_inserti32x4(all, quarter_vector(b), 1);
  all = _mm512_inserti32x4(all, quarter_vector(c), 2);
  return _mm512_inserti32x4(all, quarter_vector(d), 3);
}

/// The transpose of 16 rows of 16 words of 32 bits, from byte `offset` of each row: a row of bf16 pairs becomes a
/// column of them. `to` may be the rows themselves.
inline void transpose_words(const RowPointers& rows, std::int64_t offset, std::byte* to) {
  __m512i part[4][4];
  for (std::size_t quarter = 0; quarter < 4; ++quarter) {
    for (std::size_t i = 0; i < 4; ++i) {
      const std::int64_t at = offset + 16 * static_cast<std::int64_t>(quarter);
      part[quarter][i] = quarter_rows(rows[i] + at, rows[i + 4] + at, rows[i + 8] + at, rows[i + 12] + at);
    }
  }
  for (std::size_t quarter = 0; quarter < 4; ++quarter, to += 256) {
    const auto& [first, second, third, fourth] = part[quarter];
    const __m512i a = _mm512_unpacklo_epi32(first, second), b = _mm512_unpackhi_epi32(first, second);
    const __m512i c = _mm512_unpacklo_epi32(third, fourth), d = _mm512_unpackhi_epi32(third, fourth);
    _mm512_store_si512(to, _mm512_unpacklo_epi64(a, c));
    _mm512_store_si512(to + 64, _mm512_unpackhi_epi64(a, c));
    _mm512_store_si512(to + 128, _mm512_unpacklo_epi64(b, d));
    _mm512_store_si512(to + 192, _mm512_unpackhi_epi64(b, d));
  }
}

/// Rows of [count, width] as the right factor of a matmul over the width: tile (k, j) at (k * columns + j) tiles holds
/// numbers 32 k ... of rows 16 j .... `columns` tiles cover the rows.
inline void pack_transposed(const Rows& rows, std::int64_t columns, std::int64_t depth, std::byte* to) {
  for (std::int64_t j = 0; j < columns; ++j) {
    const RowPointers at = pointers(rows, j * tile_rows);
    for (std::int64_t k = 0; k < depth; ++k) transpose_words(at, k * 64, to + (k * columns + j) * tile_bytes);
  }
}

/// Rows of [count, width] as the right factor of a matmul over the rows: tile (k, j) at (k * columns + j) tiles holds
/// columns 16 j ... of rows 32 k ..., two rows interleaved. `columns` is even.
inline void pack_pairs(const Rows& rows, std::int64_t columns, std::int64_t depth, std::byte* to) {
  alignas(64) static constexpr std::array<std::uint16_t, 32> order = {0,  16, 1,  17, 2,  18, 3,  19, 4,  20, 5,
                                                                      21, 6,  22, 7,  23, 8,  24, 9,  25, 10, 26,
                                                                      11, 27, 12, 28, 13, 29, 14, 30, 15, 31};
  const __m512i interleaved = _mm512_load_si512(order.data());
  for (std::int64_t pair = 0; pair < 16 * depth; ++pair) {
    const std::byte *even = rows.row(2 * pair), *odd = rows.row(2 * pair + 1);
    std::byte* line = to + pair / 16 * columns * tile_bytes + pair % 16 * 64;
    for (std::int64_t j = 0; j < columns; j += 2, even += 64, odd += 64, line += 2 * tile_bytes) {
      const __m512i left = _mm512_inserti64x4(_mm512_castsi256_si512(half_vector(even)), half_vector(odd), 1);
      const __m512i right =
          _mm512_inserti64x4(_mm512_castsi256_si512(half_vector(even + 32)), half_vector(odd + 32), 1);
      _mm512_store_si512(line, _mm512_permutexvar_epi16(interleaved, left));
      _mm512_store_si512(line + tile_bytes, _mm512_permutexvar_epi16(interleaved, right));
    }
  }
}

/// Rows one after another, `padded_rows` of them, each of `row_bytes`, a multiple of 64; the last `missing` bytes of
/// each are zeros.
inline void pack_rows(const Rows& rows, std::int64_t padded_rows, std::int64_t row_bytes, std::int64_t missing,
                      std::byte* to) {
  const __mmask32 last = 0xffffffffU >> (missing / 2);
  for (std::int64_t i = 0; i < padded_rows; ++i, to += row_bytes) {
    const std::byte* from = rows.row(i);
    for (std::int64_t at = 0; at + 64 < row_bytes; at += 64) _mm512_store_si512(to + at, _mm512_loadu_si512(from + at));
    const std::int64_t at = row_bytes - 64;
    _mm512_store_si512(to + at, _mm512_maskz_loadu_epi16(last, from + at));
  }
}

}  // namespace babelring::cpu::BABELRING_KERNEL_SET
