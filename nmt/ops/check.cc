#include "nmt/ops/check.h"

#include <fmt/format.h>

#include <cmath>
#include <cstdint>

#include "base/failure.h"

namespace babelring {

namespace {

std::int64_t stride_bytes(const ConstTensor& view) {
  return view.row_stride * static_cast<std::int64_t>(size_of(view.dtype));
}

std::int64_t row_bytes(const ConstTensor& view) {
  return view.columns() * static_cast<std::int64_t>(size_of(view.dtype));
}

std::int64_t address(const ConstTensor& view) {
  return reinterpret_cast<std::intptr_t>(view.data);
}

std::int64_t end_address(const ConstTensor& view) {
  return address(view) + (view.rows() - 1) * stride_bytes(view) + row_bytes(view);
}

}  // namespace

bool overlap(const ConstTensor& a, const ConstTensor& b) {
  if (!a || !b || a.shape.elements() == 0 || b.shape.elements() == 0) return false;
  if (address(a) >= end_address(b) || address(b) >= end_address(a)) return false;
  const std::int64_t stride = stride_bytes(a);
  if (stride != stride_bytes(b) || a.contiguous() || b.contiguous()) return true;
  // Columns of one matrix: compare the places within a row.
  const std::int64_t shift = ((address(b) - address(a)) % stride + stride) % stride;
  return shift < row_bytes(a) || shift + row_bytes(b) > stride;
}

bool same_view(const ConstTensor& a, const ConstTensor& b) {
  return a.data == b.data && a.shape == b.shape && a.dtype == b.dtype &&
         (a.row_stride == b.row_stride || a.rows() <= 1);
}

void OpCheck::refuse(const std::string& what) const {
  fail("{}: {}", op_, what);
}

void OpCheck::present(const Field& field) const {
  if (!field.tensor && field.tensor.shape.elements() > 0) refuse(fmt::format("{} is absent", field.name));
}

void OpCheck::rank(const Field& field, int rank) const {
  present(field);
  const ConstTensor& view = field.tensor;
  if (view.shape.rank() != rank) {
    refuse(fmt::format("{} has shape {}, {} extents are needed", field.name, view.shape.text(), rank));
  }
  if (view.row_stride < view.columns() && view.rows() > 1) {
    refuse(fmt::format("{} {} has a row stride of {}, at least {} is needed", field.name, view.shape.text(),
                       view.row_stride, view.columns()));
  }
}

void OpCheck::shape(const Field& field, const Shape& expected, const Field& because) const {
  present(field);
  if (field.tensor.shape == expected) return rank(field, expected.rank());
  refuse(fmt::format("{} has shape {}, {} {} needs {}", field.name, field.tensor.shape.text(), because.name,
                     because.tensor.shape.text(), expected.text()));
}

void OpCheck::type(const Field& field, DType expected) const {
  if (field.tensor.dtype == expected) return;
  refuse(fmt::format("{} is {}, {} is needed", field.name, name_of(field.tensor.dtype), name_of(expected)));
}

void OpCheck::same_type(const Field& field, const Field& because) const {
  if (field.tensor.dtype == because.tensor.dtype) return;
  refuse(fmt::format("{} is {}, {} is {}", field.name, name_of(field.tensor.dtype), because.name,
                     name_of(because.tensor.dtype)));
}

void OpCheck::floating(const Field& field) const {
  if (field.tensor.dtype == DType::f32 || field.tensor.dtype == DType::bf16) return;
  refuse(fmt::format("{} is {}, f32 or bf16 is needed", field.name, name_of(field.tensor.dtype)));
}

void OpCheck::contiguous(std::initializer_list<Field> fields) const {
  for (const Field& field : fields) {
    if (field.tensor.contiguous()) continue;
    refuse(fmt::format("{} {} has a row stride of {}, contiguous rows are needed", field.name,
                       field.tensor.shape.text(), field.tensor.row_stride));
  }
}

void OpCheck::quantized(const QuantizedWeight& weight) const {
  if (weight.shape.rank() != 2) refuse("weight is absent, a quantized one is needed");
  const Field because{"weight", ConstTensor(weight.elements.data, weight.shape, DType::int8)};
  const Shape per_output{weight.panels() * QuantizedWeight::panel_outputs};
  shape({"elements", weight.elements}, weight.elements_shape(), because);
  type({"elements", weight.elements}, DType::int8);
  shape({"scales", weight.scales}, per_output, because);
  type({"scales", weight.scales}, DType::f32);
  shape({"sums", weight.sums}, per_output, because);
  type({"sums", weight.sums}, DType::i32);
}

void OpCheck::distinct(const Field& written, std::initializer_list<Field> others) const {
  for (const Field& other : others) {
    if (overlap(written.tensor, other.tensor)) {
      refuse(fmt::format("{} overlaps {}, it must not alias it", written.name, other.name));
    }
  }
}

void OpCheck::same_or_distinct(const Field& written, std::initializer_list<Field> others) const {
  for (const Field& other : others) {
    if (overlap(written.tensor, other.tensor) && !same_view(written.tensor, other.tensor)) {
      refuse(fmt::format("{} overlaps {} in part, it may only be the same view", written.name, other.name));
    }
  }
}

void OpCheck::range(std::string_view name, double value, double low, double high) const {
  if (value >= low && value <= high) return;
  refuse(fmt::format("{} is {}, {} to {} is needed", name, value, low, high));
}

void OpCheck::at_least(std::string_view name, std::int64_t value, std::int64_t low) const {
  if (value < low) refuse(fmt::format("{} is {}, at least {} is needed", name, value, low));
}

void OpCheck::finite(std::string_view name, double value) const {
  if (!std::isfinite(value)) refuse(fmt::format("{} is {}, a finite number is needed", name, value));
}

void OpCheck::dropout(const DropoutKey& key) const {
  if (key.probability >= 0 && key.probability < 1 && key.threshold() < 65536) return;
  refuse(fmt::format("dropout probability is {}, 0 or more and below 1 is needed", key.probability));
}

void OpCheck::offsets(const Field& field, const Field& tokens) const {
  rank(field, 1);
  type(field, DType::i32);
  const auto* offsets = field.tensor.as<std::int32_t>();
  const std::int64_t count = field.tensor.shape[0];
  if (count < 1 || offsets[0] != 0) refuse(fmt::format("{} must begin with 0", field.name));
  for (std::int64_t i = 1; i < count; ++i) {
    if (offsets[i] >= offsets[i - 1]) continue;
    refuse(fmt::format("{}[{}] is {}, less than {} before it", field.name, i, offsets[i], offsets[i - 1]));
  }
  if (offsets[count - 1] != tokens.tensor.shape[0]) {
    refuse(fmt::format("{} ends at {}, {} {} needs {}", field.name, offsets[count - 1], tokens.name,
                       tokens.tensor.shape.text(), tokens.tensor.shape[0]));
  }
}

}  // namespace babelring
