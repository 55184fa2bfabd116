#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>

#include "nmt/core/tensor.h"
#include "nmt/ops/attention.h"
#include "nmt/ops/cpu/cpu_context.h"
#include "nmt/ops/cpu/kernels/vector_math.h"

/// The two implementations of attention. run() uses the second if it supports the op. Their results are equal up to the
/// rounding of bf16.

namespace babelring::cpu::BABELRING_KERNEL_SET {

/// Computes in f32 in vector registers. Supports all processors and both types.
void run_vectors(const AttentionForward& op, CpuContext& context);
void run_vectors(const AttentionBackward& op, CpuContext& context);

/// The widest head that run_tiles() supports.
inline constexpr std::int64_t widest_tiled_head = 2048;

/// True if run_tiles() supports the op.
template <class Op>
bool fits_tiles(const Op& op, const CpuContext& context) {
  return context.tiles() && op.q.dtype == DType::bf16 && op.q.shape[1] / op.heads <= widest_tiled_head;
}

/// Computes bf16 matmuls in matrix tiles. Requires fits_tiles(op). Scores and sums are f32; probabilities and gradients
/// of scores are rounded to bf16 before they are multiplied.
void run_tiles(const AttentionForward& op, CpuContext& context);
void run_tiles(const AttentionBackward& op, CpuContext& context);

// Matmuls of f32 tiles that fit into the caches. Rows of B and C are padded to whole vectors. Uses gcc's vector
// extension: a vector is one AVX-512 register or several narrower ones.

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

/// Rows [first, first + count) and one head's columns of a packed tensor.
template <class View>
struct HeadRows {
  HeadRows(const View& tensor, std::int64_t first_row, std::int64_t row_count, std::int64_t head,
           std::int64_t head_width)
      : tensor_(tensor),
        first_(first_row * tensor.row_stride + head * head_width),
        count(row_count),
        width(head_width) {}

  template <class T>
  T* row(std::int64_t i) const {
    return tensor_.template as<std::remove_const_t<T>>() + first_ + i * tensor_.row_stride;
  }

 private:
  const View& tensor_;
  std::int64_t first_;

 public:
  const std::int64_t count, width;
};

/// Copies a head to f32 [count, padded(width)], padding zeroed.
template <class T>
void load_tile(const HeadRows<ConstTensor>& head, float* __restrict tile) {
  const std::int64_t stride = padded(head.width);
  for (std::int64_t i = 0; i < head.count; ++i) {
    widen(head.template row<const T>(i), tile + i * stride, head.width);
    std::fill(tile + i * stride + head.width, tile + (i + 1) * stride, 0.0f);
  }
}

/// Writes a tile [count, padded(width)] back, times `factor`.
template <class T>
void store_tile(const float* tile, float factor, const HeadRows<Tensor>& head) {
  const std::int64_t stride = padded(head.width);
  for (std::int64_t i = 0; i < head.count; ++i) {
    T* to = head.template row<T>(i);
    const float* from = tile + i * stride;
#pragma omp simd
    for (std::int64_t c = 0; c < head.width; ++c) to[c] = rounded<T>(from[c] * factor);
  }
}

inline constexpr std::int64_t query_block = 48;  // rows of scores held at once

/// Longest sentence of the offsets.
inline std::int64_t longest(const ConstTensor& offsets) {
  const auto* at = offsets.as<std::int32_t>();
  std::int64_t length = 0;
  for (std::int64_t s = 0; s + 1 < offsets.shape[0]; ++s) length = std::max<std::int64_t>(length, at[s + 1] - at[s]);
  return length;
}

/// How many neighbouring tasks a thread takes at once: the heads of a sentence, whose rows lie side by side, unless
/// that left threads idle.
inline std::int64_t run_of_tasks(std::int64_t tasks, int heads, int threads) {
  return std::clamp<std::int64_t>(tasks / (8 * threads), 1, heads);
}

}  // namespace babelring::cpu::BABELRING_KERNEL_SET
