#pragma once

#include <cstdint>
#include <vector>

#include "nmt/core/tensor.h"

namespace babelring::reference {

/// Rows of doubles. What the formulas compute on, so that central differences can be taken in double.
struct Matrix {
  std::int64_t rows = 0, columns = 0;
  std::vector<double> values;

  Matrix() = default;
  Matrix(std::int64_t row_count, std::int64_t column_count, double value = 0);

  double& operator()(std::int64_t row, std::int64_t column) {
    return values[static_cast<std::size_t>(row * columns + column)];
  }
  double operator()(std::int64_t row, std::int64_t column) const {
    return values[static_cast<std::size_t>(row * columns + column)];
  }
};

/// A copy of an f32, bf16 or i32 tensor; one row for a 1-D tensor, an empty matrix for an absent one.
Matrix load(const ConstTensor& tensor);
/// scales[i] * q(i, k) of each element.
Matrix load(const QuantizedWeight& weight);
/// Rounds to the tensor's type.
void store(const Matrix& matrix, const Tensor& tensor);
/// store(load(tensor) + matrix, tensor).
void add(const Matrix& matrix, const Tensor& tensor);

}  // namespace babelring::reference
