#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>

#include "nmt/core/tensor.h"

namespace babelring::cuda {

/// An operation on the result of a matmul before it is written.
enum class Epilogue : std::uint8_t { none, bias, relu, bias_relu };

/// The extent of a matmul that differs between updates because it counts the rows of a batch.
enum class Varying : std::uint8_t { none, m, k, batch };

/// C = alpha A B or C += alpha A B, for A [m, k], B [k, n] and C [m, n]. Element (i, l) of A is at a_row i + a_column
/// l, element (l, j) of B at b_row l + b_column j, counted in elements; one stride of each pair is 1. Rows of C are
/// c_row elements apart. For batch > 1, the operands of consecutive matmuls are a_batch, b_batch and c_batch elements
/// apart.
///
/// After choice_shape() has rounded the varying extent, a shape is the key of a choice of algorithm. It therefore
/// contains everything that the choice depends on.
struct MatmulShape {
  std::int64_t m = 0, n = 0, k = 0;
  std::int64_t a_row = 0, a_column = 1, b_row = 0, b_column = 1, c_row = 0;
  std::int64_t batch = 1, a_batch = 0, b_batch = 0, c_batch = 0;
  DType type = DType::f32, c_type = DType::f32;  // `type`: of A and B
  bool accumulate = false;
  Epilogue epilogue = Epilogue::none;
  Varying varying = Varying::none;
  std::uint8_t a_alignment = 16, b_alignment = 16, c_alignment = 16;  // bytes
  std::uint16_t bias_alignment = 256;                                 // bytes

  bool operator==(const MatmulShape&) const = default;
};

/// All members of a shape in the order of their declaration.
using MatmulKey = std::array<std::int64_t, 21>;
MatmulKey key_of(const MatmulShape& shape);

struct MatmulShapeHash {
  std::size_t operator()(const MatmulShape& shape) const;
};

/// For messages: "x W^T 25600x512x2048 bf16" with m, n and k, followed by "batch of 64" for a batch.
std::string text_of(const MatmulShape& shape);
/// For messages: "bias and ReLU"; empty for Epilogue::none.
std::string text_of(Epilogue epilogue);

/// Rounds up to a power of two, at least 16, up to 256, and to a multiple of 256 above. 0 stays 0.
std::int64_t bucketed_rows(std::int64_t rows);
/// The shape whose algorithm is used for `shape`, with the varying extent rounded up so that the batches of an epoch
/// share few choices: rows to bucketed_rows(), above 8192 to a multiple of 1/16 of the largest power of two below them;
/// `batch` to a power of two.
MatmulShape choice_shape(MatmulShape shape);

/// The largest power of two up to `max` that divides the address and both strides. `max` must be a power of two.
std::uint16_t alignment_of(const void* data, std::int64_t row_bytes, std::int64_t batch_bytes, std::uint16_t max = 16);

/// The shapes of x W^T (LinearForward), dy W (LinearBackwardData) and dy^T x (LinearBackwardWeight).
MatmulShape forward_matmul(const ConstTensor& x, const ConstTensor& weight, const ConstTensor& y);
MatmulShape data_gradient_matmul(const ConstTensor& dy, const ConstTensor& weight, const ConstTensor& dx);
MatmulShape weight_gradient_matmul(const ConstTensor& dy, const ConstTensor& x, const ConstTensor& dweight);

}  // namespace babelring::cuda
