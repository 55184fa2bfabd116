#include "nmt/core/tensor.h"

#include <fmt/format.h>

#include <type_traits>

#include "base/failure.h"

namespace babelring {

Shape::Shape(std::initializer_list<std::int64_t> extents) {
  if (extents.size() > max_rank) fail("shape: {} extents, at most {} are supported", extents.size(), max_rank);
  for (const std::int64_t extent : extents) {
    if (extent < 0) fail("shape: extent {} is negative", extent);
    extents_[static_cast<std::size_t>(rank_++)] = extent;
  }
}

std::int64_t Shape::elements() const {
  std::int64_t product = 1;
  for (int axis = 0; axis < rank_; ++axis) product *= (*this)[axis];
  return product;
}

std::string Shape::text() const {
  std::string text = "[";
  for (int axis = 0; axis < rank_; ++axis) text += fmt::format("{}{}", axis == 0 ? "" : ", ", (*this)[axis]);
  return text + "]";
}

namespace {

/// char for Tensor, const char for ConstTensor.
template <class View>
using Byte = std::conditional_t<std::is_same_v<View, Tensor>, char, const char>;

template <class View>
View columns_of(const View& whole, std::int64_t first, std::int64_t count) {
  if (whole.shape.rank() != 2 || first < 0 || count < 0 || first + count > whole.shape[1]) {
    fail("column_slice: columns {} to {} of shape {}", first, first + count, whole.shape.text());
  }
  View part = whole;
  part.data = static_cast<Byte<View>*>(whole.data) + static_cast<std::size_t>(first) * size_of(whole.dtype);
  part.shape = Shape{whole.shape[0], count};
  return part;
}

template <class View>
View rows_of(const View& whole, std::int64_t first, std::int64_t count) {
  const int rank = whole.shape.rank();
  if (rank < 1 || rank > 2 || first < 0 || count < 0 || first + count > whole.shape[0]) {
    fail("row_slice: rows {} to {} of shape {}", first, first + count, whole.shape.text());
  }
  View part = whole;
  const std::int64_t stride = rank == 2 ? whole.row_stride : 1;
  part.data = static_cast<Byte<View>*>(whole.data) + static_cast<std::size_t>(first * stride) * size_of(whole.dtype);
  part.shape = rank == 2 ? Shape{count, whole.shape[1]} : Shape{count};
  if (rank == 1) part.row_stride = count;
  return part;
}

}  // namespace

ConstTensor::ConstTensor(const void* elements, Shape extents, DType type)
    : data(elements), shape(extents), dtype(type), row_stride(columns()) {}

ConstTensor ConstTensor::column_slice(std::int64_t first, std::int64_t count) const {
  return columns_of(*this, first, count);
}
ConstTensor ConstTensor::row_slice(std::int64_t first, std::int64_t count) const {
  return rows_of(*this, first, count);
}

Tensor::Tensor(void* elements, Shape extents, DType type) : data(elements), shape(extents), dtype(type) {
  row_stride = extents.rank() == 0 ? 1 : extents[extents.rank() - 1];
}

Tensor::operator ConstTensor() const {
  ConstTensor view(data, shape, dtype);
  view.row_stride = row_stride;
  return view;
}

Tensor Tensor::column_slice(std::int64_t first, std::int64_t count) const {
  return columns_of(*this, first, count);
}
Tensor Tensor::row_slice(std::int64_t first, std::int64_t count) const {
  return rows_of(*this, first, count);
}

double total_bytes(std::initializer_list<ConstTensor> tensors) {
  double total = 0;
  for (const ConstTensor& tensor : tensors) total += tensor ? static_cast<double>(tensor.bytes()) : 0;
  return total;
}

}  // namespace babelring
