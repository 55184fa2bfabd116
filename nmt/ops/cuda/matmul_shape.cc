#include "nmt/ops/cuda/matmul_shape.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>

#include "nmt/core/random.h"

namespace babelring::cuda {

namespace {

std::uint8_t tensor_alignment(const ConstTensor& tensor) {
  return static_cast<std::uint8_t>(
      alignment_of(tensor.data, tensor.row_stride * static_cast<std::int64_t>(size_of(tensor.dtype)), 0));
}

MatmulShape with_operands(MatmulShape shape, const ConstTensor& a, const ConstTensor& b, const ConstTensor& c) {
  shape.c_row = c.row_stride;
  shape.type = a.dtype;
  shape.c_type = c.dtype;
  shape.a_alignment = tensor_alignment(a);
  shape.b_alignment = tensor_alignment(b);
  shape.c_alignment = tensor_alignment(c);
  return shape;
}

}  // namespace

MatmulKey key_of(const MatmulShape& s) {
  const auto number = [](auto value) { return static_cast<std::int64_t>(value); };
  return {s.m,
          s.n,
          s.k,
          s.a_row,
          s.a_column,
          s.b_row,
          s.b_column,
          s.c_row,
          s.batch,
          s.a_batch,
          s.b_batch,
          s.c_batch,
          number(s.type),
          number(s.c_type),
          number(s.accumulate),
          number(s.epilogue),
          number(s.varying),
          number(s.a_alignment),
          number(s.b_alignment),
          number(s.c_alignment),
          number(s.bias_alignment)};
}

std::size_t MatmulShapeHash::operator()(const MatmulShape& shape) const {
  std::uint64_t hash = 0;
  for (const std::int64_t value : key_of(shape)) {
    hash = mix64(hash + 0x9e3779b97f4a7c15ULL + static_cast<std::uint64_t>(value));
  }
  return hash;
}

std::string text_of(const MatmulShape& shape) {
  const char* what = shape.varying == Varying::k   ? "dy^T x"
                     : shape.varying != Varying::m ? "a b"
                     : shape.b_row == 1            ? "x W^T"
                                                   : "dy W";
  const std::string batch = shape.batch == 1 ? "" : fmt::format(", batch of {}", shape.batch);
  return fmt::format("{} {}x{}x{} {}{}", what, shape.m, shape.n, shape.k, name_of(shape.type), batch);
}

std::string text_of(Epilogue epilogue) {
  switch (epilogue) {
    case Epilogue::bias:
      return "bias";
    case Epilogue::relu:
      return "ReLU";
    case Epilogue::bias_relu:
      return "bias and ReLU";
    case Epilogue::none:
      break;
  }
  return "";
}

std::int64_t bucketed_rows(std::int64_t rows) {
  constexpr std::int64_t fewest = 16, step = 256;
  if (rows <= 0) return rows;
  if (rows > step) return (rows + step - 1) / step * step;
  return static_cast<std::int64_t>(std::bit_ceil(static_cast<std::uint64_t>(std::max(rows, fewest))));
}

MatmulShape choice_shape(MatmulShape shape) {
  constexpr std::int64_t fine_up_to = 8192;
  const auto rounded = [](std::int64_t rows) {
    if (rows <= fine_up_to) return bucketed_rows(rows);
    const auto step = static_cast<std::int64_t>(std::bit_floor(static_cast<std::uint64_t>(rows - 1)) / 16);
    return (rows + step - 1) / step * step;
  };
  if (shape.varying == Varying::m) shape.m = rounded(shape.m);
  if (shape.varying == Varying::k) shape.k = rounded(shape.k);
  if (shape.varying == Varying::batch && shape.batch > 1) {
    shape.batch = static_cast<std::int64_t>(std::bit_ceil(static_cast<std::uint64_t>(shape.batch)));
  }
  return shape;
}

std::uint16_t alignment_of(const void* data, std::int64_t row_bytes, std::int64_t batch_bytes, std::uint16_t max) {
  const std::uint64_t places = reinterpret_cast<std::uintptr_t>(data) | static_cast<std::uint64_t>(row_bytes) |
                               static_cast<std::uint64_t>(batch_bytes) | max;
  return static_cast<std::uint16_t>(places & (~places + 1));
}

MatmulShape forward_matmul(const ConstTensor& x, const ConstTensor& weight, const ConstTensor& y) {
  return with_operands({.m = x.shape[0],
                        .n = weight.shape[0],
                        .k = x.shape[1],
                        .a_row = x.row_stride,
                        .a_column = 1,
                        .b_row = 1,
                        .b_column = weight.row_stride,
                        .varying = Varying::m},
                       x, weight, y);
}

MatmulShape data_gradient_matmul(const ConstTensor& dy, const ConstTensor& weight, const ConstTensor& dx) {
  return with_operands({.m = dy.shape[0],
                        .n = weight.shape[1],
                        .k = dy.shape[1],
                        .a_row = dy.row_stride,
                        .a_column = 1,
                        .b_row = weight.row_stride,
                        .b_column = 1,
                        .varying = Varying::m},
                       dy, weight, dx);
}

MatmulShape weight_gradient_matmul(const ConstTensor& dy, const ConstTensor& x, const ConstTensor& dweight) {
  return with_operands({.m = dy.shape[1],
                        .n = x.shape[1],
                        .k = dy.shape[0],
                        .a_row = 1,
                        .a_column = dy.row_stride,
                        .b_row = x.row_stride,
                        .b_column = 1,
                        .varying = Varying::k},
                       dy, x, dweight);
}

}  // namespace babelring::cuda
