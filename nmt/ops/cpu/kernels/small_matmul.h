#pragma once

#include <cstdint>
#include <cstring>

/// Matmuls of f32 tiles that fit into the caches. Rows of B and C are padded to whole vectors. Uses gcc's vector
/// extension: a vector is one AVX-512 register or several narrower ones.
namespace babelring::cpu::BABELRING_KERNEL_SET {

inline constexpr std::int64_t lanes = 16;
using Vector = float __attribute__((vector_size(lanes * sizeof(float))));

inline std::int64_t padded(std::int64_t count) {
  return (count + lanes - 1) / lanes * lanes;
}

using Lanes = std::int32_t __attribute__((vector_size(lanes * sizeof(std::int32_t))));

/// Exchanges the off-diagonal blocks of `distance` x `distance` within each block of twice the size.
template <int distance>
inline void exchange_blocks(Vector (&rows)[lanes]) {
  Lanes upper, lower;
  for (int j = 0; j < lanes; ++j) {
    const bool right = (j & distance) != 0;
    upper[j] = right ? static_cast<int>(lanes) + j - distance : j;
    lower[j] = right ? static_cast<int>(lanes) + j : j + distance;
  }
  for (int i = 0; i < lanes; ++i) {
    if ((i & distance) != 0) continue;
    const Vector above = rows[i], below = rows[i + distance];
    rows[i] = __builtin_shuffle(above, below, upper);
    rows[i + distance] = __builtin_shuffle(above, below, lower);
  }
}

/// The transpose of [count, columns] into [columns, padded(count)], with zeros in the padding; `from`'s rows are
/// padded(columns) long.
inline void transpose(const float* from, std::int64_t count, std::int64_t columns, float* to) {
  const std::int64_t from_stride = padded(columns), to_stride = padded(count);
  for (std::int64_t top = 0; top < count; top += lanes) {
    for (std::int64_t left = 0; left < columns; left += lanes) {
      Vector rows[lanes];
      for (std::int64_t i = 0; i < lanes; ++i) {
        rows[i] = Vector{};
        if (top + i < count) std::memcpy(&rows[i], from + (top + i) * from_stride + left, sizeof(Vector));
      }
      exchange_blocks<8>(rows);
      exchange_blocks<4>(rows);
      exchange_blocks<2>(rows);
      exchange_blocks<1>(rows);
      for (std::int64_t i = 0; i < lanes && left + i < columns; ++i) {
        std::memcpy(to + (left + i) * to_stride + top, &rows[i], sizeof(Vector));
      }
    }
  }
}

/// The left factor A: element (i, k) is data[i * row_stride + k * column_stride], so a transposed view costs nothing.
struct Factor {
  const float* data;
  std::int64_t row_stride, column_stride;
};

/// C[rows, columns] = A[rows, depth] B[depth, columns], or C += A B. Strides are distances between rows, in elements.
/// Columns up to padded(columns) are computed: B's padding must hold finite numbers, C's is overwritten.
struct SmallMatmul {
  std::int64_t rows, columns, depth;
  Factor a;
  const float* b;
  std::int64_t b_stride;
  float* c;
  std::int64_t c_stride;
  bool accumulate = false;  // C += A B
};

/// Computes the first `rows` rows of `vectors` vectors of columns, in registers over the whole depth.
template <int rows, int vectors>
inline void matmul_block(const SmallMatmul& matmul) {
  const std::int64_t depth = matmul.depth, b_stride = matmul.b_stride, c_stride = matmul.c_stride;
  const Factor a = matmul.a;
  const float* const b = matmul.b;
  float* const c = matmul.c;
  Vector sum[rows][vectors];
  for (int i = 0; i < rows; ++i) {
    for (int j = 0; j < vectors; ++j) {
      sum[i][j] = Vector{};
      if (matmul.accumulate) std::memcpy(&sum[i][j], c + i * c_stride + j * lanes, sizeof(Vector));
    }
  }
  for (std::int64_t k = 0; k < depth; ++k) {
    Vector row[vectors];
    for (int j = 0; j < vectors; ++j) std::memcpy(&row[j], b + k * b_stride + j * lanes, sizeof(Vector));
    for (int i = 0; i < rows; ++i) {
      const float factor = a.data[i * a.row_stride + k * a.column_stride];
      for (int j = 0; j < vectors; ++j) sum[i][j] += factor * row[j];
    }
  }
  for (int i = 0; i < rows; ++i) {
    for (int j = 0; j < vectors; ++j) std::memcpy(c + i * c_stride + j * lanes, &sum[i][j], sizeof(Vector));
  }
}

/// Computes all rows of `vectors` vectors of columns, from column `first` on.
template <int vectors>
inline void matmul_stripe(SmallMatmul matmul, std::int64_t first) {
  matmul.b += first;
  matmul.c += first;
  std::int64_t i = 0;
  for (; i + 6 <= matmul.rows; i += 6) {
    matmul_block<6, vectors>(matmul);
    matmul.a.data += 6 * matmul.a.row_stride;
    matmul.c += 6 * matmul.c_stride;
  }
  switch (matmul.rows - i) {
    case 5:
      return matmul_block<5, vectors>(matmul);
    case 4:
      return matmul_block<4, vectors>(matmul);
    case 3:
      return matmul_block<3, vectors>(matmul);
    case 2:
      return matmul_block<2, vectors>(matmul);
    case 1:
      return matmul_block<1, vectors>(matmul);
    default:
      return;
  }
}

inline void small_matmul(const SmallMatmul& matmul) {
  const std::int64_t width = padded(matmul.columns);
  std::int64_t first = 0;
  for (; first + 2 * lanes <= width; first += 2 * lanes) matmul_stripe<2>(matmul, first);
  if (first < width) matmul_stripe<1>(matmul, first);
}

}  // namespace babelring::cpu::BABELRING_KERNEL_SET
