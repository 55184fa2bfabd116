#pragma once

#include <initializer_list>
#include <string>
#include <string_view>

#include "nmt/core/random.h"
#include "nmt/core/tensor.h"

namespace babelring {

/// A tensor of an op and its field name, for messages.
struct Field {
  std::string_view name;
  ConstTensor tensor;
};

/// Building blocks of check(). Each member throws Failure with one line that names the op, the field, the value found
/// and the value expected: layer_norm_forward: gain has shape [512], x [64, 256] needs [256]
class OpCheck {
 public:
  explicit OpCheck(std::string_view op) : op_(op) {}

  /// Requires the field to be present (an empty tensor needs no data), to have `rank` dimensions and non-overlapping
  /// rows.
  void rank(const Field& field, int rank) const;
  /// Requires the field to be present and to have shape `expected`; the message names `because` as the reason.
  void shape(const Field& field, const Shape& expected, const Field& because) const;
  void type(const Field& field, DType expected) const;
  /// Requires the type of `because`.
  void same_type(const Field& field, const Field& because) const;
  /// Requires f32 or bf16.
  void floating(const Field& field) const;
  void contiguous(std::initializer_list<Field> fields) const;
  /// Requires a weight of int8 with all its parts.
  void quantized(const QuantizedWeight& weight) const;
  /// Requires that `written` shares no elements with `others`.
  void distinct(const Field& written, std::initializer_list<Field> others) const;
  /// Requires that `written` shares no elements with each of `others`, or is the same view (in-place op).
  void same_or_distinct(const Field& written, std::initializer_list<Field> others) const;
  /// Requires low <= value <= high; NaN fails.
  void range(std::string_view name, double value, double low, double high) const;
  /// Requires value >= low.
  void at_least(std::string_view name, std::int64_t value, std::int64_t low) const;
  /// Requires a finite value.
  void finite(std::string_view name, double value) const;
  /// Requires 0 <= probability < 1, also after rounding to 16 bits.
  void dropout(const DropoutKey& key) const;
  /// Requires [sentences + 1] i32 that starts at 0, is non-decreasing and ends at the rows of `tokens`.
  void offsets(const Field& field, const Field& tokens) const;

  [[noreturn]] void refuse(const std::string& what) const;

 private:
  void present(const Field& field) const;
  std::string_view op_;
};

/// True if two views share elements. Exact for columns of one matrix; otherwise compares address ranges.
bool overlap(const ConstTensor& a, const ConstTensor& b);
/// True if two views have the same elements in the same order.
bool same_view(const ConstTensor& a, const ConstTensor& b);

}  // namespace babelring
