#pragma once

#include <string_view>

#include "nmt/core/buffer.h"
#include "nmt/core/tensor.h"

namespace babelring {

enum class Activation { none, relu };

/// A copy of a weight in the order in which a backend's products read it, made by Backend::pack() for weights that are
/// multiplied many times unchanged. It does not follow later writes to the weight.
struct PackedWeight {
  Shape shape;  // of the weight, [out, in]
  DType dtype = DType::f32;
  Buffer elements;
};

/// y = activation(x W^T + bias). Products accumulate in f32.
struct LinearForward {
  ConstTensor x;       // [rows, in], f32 or bf16; may be strided
  ConstTensor weight;  // [out, in], same type as x
  ConstTensor bias;    // [out] f32; absent: none
  Tensor y;            // [rows, out], type of x or f32, overwritten; may be strided; must not alias x
  Activation activation = Activation::none;
  /// [out], the bias in the weight's type, which some backends take instead. Absent: there is none, and those round it
  /// each time.
  ConstTensor bias_copy;
  const PackedWeight* packed = nullptr;  // of `weight`, by the backend that runs this; null: none
  /// [rows, Backend::relu_mask_words()] i32, overwritten: where y is positive, in a form of the backend's own, for
  /// LinearBackwardData. Absent: not wanted.
  Tensor relu_mask;
  static constexpr std::string_view name = "linear_forward";
  void check() const;
  double flops() const { return 2.0 * static_cast<double>(x.rows() * weight.shape[0] * weight.shape[1]); }
  double bytes() const { return total_bytes({x, weight, bias, y, relu_mask}); }
};

/// dx = dy W, or dx += dy W. With `gate`, the backward of gate = dropout(relu(z)) is applied on the way: dx = (gate > 0
/// ? gate_scale : 0) * dy W, for a positive element was neither dropped nor cut.
struct LinearBackwardData {
  ConstTensor dy;      // [rows, out]; may be strided
  ConstTensor weight;  // [out, in], same type as dy
  Tensor dx;           // [rows, in], type of dy or f32; may be strided
  bool accumulate = false;
  ConstTensor gate;      // [rows, in], same type as dx; may be strided; absent: none; not with accumulate
  float gate_scale = 1;  // DropoutKey::scale(), 1 without dropout
  /// Written by the LinearForward that made the gate, which need not be read then; only if nothing was dropped since.
  /// Absent: there is none.
  ConstTensor relu_mask;
  static constexpr std::string_view name = "linear_backward_data";
  void check() const;
  double flops() const { return 2.0 * static_cast<double>(dy.rows() * weight.shape[0] * weight.shape[1]); }
  double bytes() const {
    return total_bytes({dy, weight, dx, accumulate ? dx : Tensor(), relu_mask ? relu_mask : gate});
  }
};

/// dW += dy^T x and dbias += column sums of dy, in f32.
struct LinearBackwardWeight {
  ConstTensor dy;          // [rows, out]; may be strided
  ConstTensor x;           // [rows, in], same type as dy; may be strided
  Tensor dweight;          // [out, in] f32, added to
  Tensor dbias;            // [out] f32, added to; absent: none
  bool accumulate = true;  // false: both are overwritten
  static constexpr std::string_view name = "linear_backward_weight";
  void check() const;
  double flops() const { return 2.0 * static_cast<double>(dy.rows() * dweight.shape[0] * dweight.shape[1]); }
  double bytes() const {
    return total_bytes({dy, x, dweight, dbias}) + (accumulate ? total_bytes({dweight, dbias}) : 0.0);
  }
};

}  // namespace babelring
