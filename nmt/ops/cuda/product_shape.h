#pragma once

#include <cstddef>
#include <cstdint>

#include "nmt/core/tensor.h"

namespace babelring::cuda {

/// What is done to a product on its way to memory. The last three are the library's alone: what a mask looks like is
/// known to it only.
enum class Epilogue : std::uint8_t {
  none,
  bias,
  relu,
  bias_relu,
  bias_relu_mask,  // and a bit for each element is written: whether it is positive
  relu_gradient,   // elements whose bit is not set become 0
  bias_gradient,   // the rows of A are summed as well, while they are multiplied
};

/// Of 32 bits, a row of n elements' mask: a multiple of 128 bits.
constexpr std::int64_t relu_mask_words(std::int64_t n) {
  return (n + 127) / 128 * 4;
}

/// C = alpha A B, [m, n], or C += it, in row-major terms: element (i, l) of A, [m, k], is a_row i + a_column l elements
/// from its beginning, element (l, j) of B, [k, n], b_row l + b_column j from its own. One of each pair is 1. Rows of C
/// are c_row apart. `batch` such products, whose operands are a_batch, b_batch and c_batch apart.
///
/// Also the key under which the choice of an algorithm is kept: it must hold everything that the choice depends on.
struct ProductShape {
  std::int64_t m = 0, n = 0, k = 0;
  std::int64_t a_row = 0, a_column = 1, b_row = 0, b_column = 1, c_row = 0;
  std::int64_t batch = 1, a_batch = 0, b_batch = 0, c_batch = 0;
  DType type = DType::f32, c_type = DType::f32;  // of A and B, and of C
  bool accumulate = false;
  Epilogue epilogue = Epilogue::none;
  std::uint8_t a_alignment = 16, b_alignment = 16, c_alignment = 16;  // bytes

  bool operator==(const ProductShape&) const = default;
};

struct ProductShapeHash {
  std::size_t operator()(const ProductShape& shape) const;
};

/// The largest power of two, 16 at most, that divides an address and the distances in bytes of its rows and batches.
std::uint8_t alignment_of(const void* data, std::int64_t row_bytes, std::int64_t batch_bytes);

/// x W^T of LinearForward, dy W of LinearBackwardData and dy^T x of LinearBackwardWeight.
ProductShape forward_product(const ConstTensor& x, const ConstTensor& weight, const ConstTensor& y);
ProductShape data_product(const ConstTensor& dy, const ConstTensor& weight, const ConstTensor& dx);
ProductShape weight_product(const ConstTensor& dy, const ConstTensor& x, const ConstTensor& dweight);

}  // namespace babelring::cuda
