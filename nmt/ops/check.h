#pragma once

#include <initializer_list>
#include <string>
#include <string_view>

#include "nmt/core/random.h"
#include "nmt/core/tensor.h"

namespace babelring {

/// A tensor of an op with the name of its field, for messages.
struct Field {
  std::string_view name;
  ConstTensor tensor;
};

/// What every op's check() is made of. Each member throws Failure with one line that names the op, the field, what was
/// found and what was expected:  layer_norm_forward: gain has shape [512], x [64, 256] needs [256]
class OpCheck {
 public:
  explicit OpCheck(std::string_view op) : op_(op) {}

  /// Present (no data is fine where there are no elements), `rank` extents, rows not overlapping.
  void rank(const Field& field, int rank) const;
  /// Present and of the shape that `because` needs.
  void shape(const Field& field, const Shape& expected, const Field& because) const;
  void type(const Field& field, DType expected) const;
  /// The type of `because`.
  void same_type(const Field& field, const Field& because) const;
  /// f32 or bf16.
  void floating(const Field& field) const;
  void contiguous(std::initializer_list<Field> fields) const;
  /// No element of one is an element of the other.
  void distinct(const Field& written, std::initializer_list<Field> others) const;
  /// Either no element in common, or the very same view: an op done in place.
  void same_or_distinct(const Field& written, std::initializer_list<Field> others) const;
  /// low <= value <= high, and not NaN.
  void range(std::string_view name, double value, double low, double high) const;
  /// value >= low.
  void at_least(std::string_view name, std::int64_t value, std::int64_t low) const;
  /// Finite.
  void finite(std::string_view name, double value) const;
  /// 0 <= probability, and not every element dropped.
  void dropout(const DropoutKey& key) const;
  /// [sentences + 1] i32, from 0, never falling, ending at the rows of `tokens`.
  void offsets(const Field& field, const Field& tokens) const;

  [[noreturn]] void refuse(const std::string& what) const;

 private:
  void present(const Field& field) const;
  std::string_view op_;
};

/// Whether two views have an element in common; exact for columns of one matrix, by address range otherwise.
bool overlap(const ConstTensor& a, const ConstTensor& b);
/// Whether two views are the same elements in the same order.
bool same_view(const ConstTensor& a, const ConstTensor& b);

}  // namespace babelring
