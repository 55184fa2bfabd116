#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>

#include "nmt/core/tensor.h"

namespace babelring::cuda {

/// What is done to a matmul on its way to memory. The last three are the library's alone: what a mask looks like is
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

/// The extent of a matmul that counts a batch's rows, which differ from one update to the next.
enum class Varying : std::uint8_t { none, m, k, batch };

/// C = alpha A B, [m, n], or C += it, in row-major terms: element (i, l) of A, [m, k], is a_row i + a_column l elements
/// from its beginning, element (l, j) of B, [k, n], b_row l + b_column j from its own. One of each pair is 1. Rows of C
/// are c_row apart. `batch` such matmuls, whose operands are a_batch, b_batch and c_batch apart.
///
/// With the varying extent rounded (see choice_shape()) also the key under which the choice of an algorithm is kept: it
/// must hold everything that the choice depends on.
struct MatmulShape {
  std::int64_t m = 0, n = 0, k = 0;
  std::int64_t a_row = 0, a_column = 1, b_row = 0, b_column = 1, c_row = 0;
  std::int64_t batch = 1, a_batch = 0, b_batch = 0, c_batch = 0;
  DType type = DType::f32, c_type = DType::f32;  // of A and B, and of C
  bool accumulate = false;
  Epilogue epilogue = Epilogue::none;
  Varying varying = Varying::none;
  std::uint8_t a_alignment = 16, b_alignment = 16, c_alignment = 16;  // bytes
  std::uint16_t vector_alignment = 256;                               // of the bias or its gradient, bytes

  bool operator==(const MatmulShape&) const = default;
};

/// Every field of a shape, in the order of their declaration.
using MatmulKey = std::array<std::int64_t, 21>;
MatmulKey key_of(const MatmulShape& shape);

struct MatmulShapeHash {
  std::size_t operator()(const MatmulShape& shape) const;
};

/// For people: "x W^T 25600x512x2048 bf16" with m, n and k, "batch of 64" behind it where there are several.
std::string text_of(const MatmulShape& shape);
/// For people: "bias, ReLU and its mask"; empty: none.
std::string text_of(Epilogue epilogue);

/// A number of rows rounded up: to a power of two up to 256 (at least 16), to a multiple of 256 above. 0 stays.
std::int64_t bucketed_rows(std::int64_t rows);
/// The shape whose algorithm is used for `shape`: its varying extent is rounded up, rows to bucketed_rows() and above
/// 8192 to a sixteenth of the power of two below them, so that an epoch's batches share few choices; batches to a power
/// of two.
MatmulShape choice_shape(MatmulShape shape);

/// The largest power of two, `max` at most, that divides an address and the distances in bytes of its rows and batches.
/// `max` is a power of two.
std::uint16_t alignment_of(const void* data, std::int64_t row_bytes, std::int64_t batch_bytes, std::uint16_t max = 16);

/// x W^T of LinearForward, dy W of LinearBackwardData and dy^T x of LinearBackwardWeight.
MatmulShape forward_matmul(const ConstTensor& x, const ConstTensor& weight, const ConstTensor& y);
MatmulShape data_gradient_matmul(const ConstTensor& dy, const ConstTensor& weight, const ConstTensor& dx);
MatmulShape weight_gradient_matmul(const ConstTensor& dy, const ConstTensor& x, const ConstTensor& dweight);

}  // namespace babelring::cuda
