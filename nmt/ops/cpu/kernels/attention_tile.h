#pragma once

#include <algorithm>
#include <cstdint>

#include "nmt/core/tensor.h"
#include "nmt/ops/cpu/kernels/small_matmul.h"
#include "nmt/ops/cpu/kernels/vector_math.h"

namespace babelring::cpu::BABELRING_KERNEL_SET {

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
