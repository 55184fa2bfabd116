#include "nmt/ops/cuda/product_shape.h"

#include "nmt/core/random.h"

namespace babelring::cuda {

namespace {

std::uint8_t tensor_alignment(const ConstTensor& tensor) {
  return alignment_of(tensor.data, tensor.row_stride * static_cast<std::int64_t>(size_of(tensor.dtype)), 0);
}

ProductShape with_operands(ProductShape shape, const ConstTensor& a, const ConstTensor& b, const ConstTensor& c) {
  shape.c_row = c.row_stride;
  shape.type = a.dtype;
  shape.c_type = c.dtype;
  shape.a_alignment = tensor_alignment(a);
  shape.b_alignment = tensor_alignment(b);
  shape.c_alignment = tensor_alignment(c);
  return shape;
}

}  // namespace

std::size_t ProductShapeHash::operator()(const ProductShape& s) const {
  std::uint64_t hash = 0;
  for (const std::int64_t value :
       {s.m, s.n, s.k, s.a_row, s.a_column, s.b_row, s.b_column, s.c_row, s.batch, s.a_batch, s.b_batch, s.c_batch}) {
    hash = mix64(hash + 0x9e3779b97f4a7c15ULL + static_cast<std::uint64_t>(value));
  }
  const std::uint64_t rest =
      static_cast<std::uint64_t>(s.type) | static_cast<std::uint64_t>(s.c_type) << 8 |
      static_cast<std::uint64_t>(s.accumulate) << 16 | static_cast<std::uint64_t>(s.epilogue) << 24 |
      static_cast<std::uint64_t>(s.a_alignment) << 32 | static_cast<std::uint64_t>(s.b_alignment) << 40 |
      static_cast<std::uint64_t>(s.c_alignment) << 48;
  return mix64(hash + rest);
}

std::uint8_t alignment_of(const void* data, std::int64_t row_bytes, std::int64_t batch_bytes) {
  const std::uint64_t places = reinterpret_cast<std::uintptr_t>(data) | static_cast<std::uint64_t>(row_bytes) |
                               static_cast<std::uint64_t>(batch_bytes) | 16;
  return static_cast<std::uint8_t>(places & (~places + 1));
}

ProductShape forward_product(const ConstTensor& x, const ConstTensor& weight, const ConstTensor& y) {
  return with_operands({.m = x.shape[0],
                        .n = weight.shape[0],
                        .k = x.shape[1],
                        .a_row = x.row_stride,
                        .a_column = 1,
                        .b_row = 1,
                        .b_column = weight.row_stride},
                       x, weight, y);
}

ProductShape data_product(const ConstTensor& dy, const ConstTensor& weight, const ConstTensor& dx) {
  return with_operands({.m = dy.shape[0],
                        .n = weight.shape[1],
                        .k = dy.shape[1],
                        .a_row = dy.row_stride,
                        .a_column = 1,
                        .b_row = weight.row_stride,
                        .b_column = 1},
                       dy, weight, dx);
}

ProductShape weight_product(const ConstTensor& dy, const ConstTensor& x, const ConstTensor& dweight) {
  return with_operands({.m = dy.shape[1],
                        .n = x.shape[1],
                        .k = dy.shape[0],
                        .a_row = 1,
                        .a_column = dy.row_stride,
                        .b_row = x.row_stride,
                        .b_column = 1},
                       dy, x, dweight);
}

}  // namespace babelring::cuda
