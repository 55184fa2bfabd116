#include "tests/reference/matrix.h"

#include "base/failure.h"

namespace babelring::reference {

Matrix::Matrix(std::int64_t row_count, std::int64_t column_count, double value)
    : rows(row_count), columns(column_count), values(static_cast<std::size_t>(row_count * column_count), value) {}

namespace {

double element(const ConstTensor& tensor, std::int64_t place) {
  switch (tensor.dtype) {
    case DType::f32:
      return tensor.as<float>()[place];
    case DType::bf16:
      return static_cast<float>(tensor.as<BFloat16>()[place]);
    case DType::i32:
      return tensor.as<std::int32_t>()[place];
    case DType::int8:
      return tensor.as<std::int8_t>()[place];
  }
  fail("reference: a tensor of unknown type");
}

void set_element(const Tensor& tensor, std::int64_t place, double value) {
  switch (tensor.dtype) {
    case DType::f32:
      tensor.as<float>()[place] = static_cast<float>(value);
      return;
    case DType::bf16:
      tensor.as<BFloat16>()[place] = BFloat16(static_cast<float>(value));
      return;
    case DType::i32:
      tensor.as<std::int32_t>()[place] = static_cast<std::int32_t>(value);
      return;
    case DType::int8:
      tensor.as<std::int8_t>()[place] = static_cast<std::int8_t>(value);
      return;
  }
}

}  // namespace

Matrix load(const ConstTensor& tensor) {
  if (!tensor) return {};
  Matrix matrix(tensor.rows(), tensor.columns());
  for (std::int64_t row = 0; row < matrix.rows; ++row) {
    for (std::int64_t column = 0; column < matrix.columns; ++column) {
      matrix(row, column) = element(tensor, row * tensor.row_stride + column);
    }
  }
  return matrix;
}

Matrix load(const QuantizedWeight& weight) {
  Matrix matrix(weight.shape[0], weight.shape[1]);
  for (std::int64_t row = 0; row < matrix.rows; ++row) {
    const double scale = element(weight.scales, row);
    for (std::int64_t column = 0; column < matrix.columns; ++column) {
      matrix(row, column) = scale * element(weight.elements, weight.place(row, column));
    }
  }
  return matrix;
}

void store(const Matrix& matrix, const Tensor& tensor) {
  for (std::int64_t row = 0; row < matrix.rows; ++row) {
    for (std::int64_t column = 0; column < matrix.columns; ++column) {
      set_element(tensor, row * tensor.row_stride + column, matrix(row, column));
    }
  }
}

void add(const Matrix& matrix, const Tensor& tensor) {
  Matrix sum = load(tensor);
  for (std::size_t i = 0; i < sum.values.size(); ++i) sum.values[i] += matrix.values[i];
  store(sum, tensor);
}

}  // namespace babelring::reference
