#pragma once

#include <string_view>

#include "nmt/core/buffer.h"
#include "nmt/core/tensor.h"
#include "nmt/ops/op_fields.h"

namespace babelring {

/// LinearForward computes none and relu, ActivationForward the others.
enum class Activation { none, relu, swish, gelu, swiglu };
std::string_view name_of(Activation activation);

/// A copy of a weight in the memory layout of a backend's matmuls. Created by Backend::pack() for weights that are used
/// many times unchanged. Later writes to the weight do not update it.
struct PackedWeight {
  Shape shape;  // shape of the weight, [out, in]
  DType dtype = DType::f32;
  Buffer elements;
};

/// y = activation(x W^T + bias). Matmuls accumulate in f32.
struct LinearForward {
  ConstTensor x;       // [rows, in], f32 or bf16; may be strided
  ConstTensor weight;  // [out, in], same type as x
  ConstTensor bias;    // [out] f32; no bias if absent
  Tensor y;            // [rows, out], type of x or f32, overwritten; may be strided; must not alias x
  Activation activation = Activation::none;
  /// [out], the bias in the weight's type, which some backends use instead. If absent, those backends convert the bias
  /// on each call.
  ConstTensor bias_copy;
  const PackedWeight* packed = nullptr;  // `weight` packed by the same backend, or null
  static constexpr std::string_view name = "linear_forward";
  void check() const;
  static void fields(auto& op, auto&& f) {
    f.reads("x", op.x).reads("weight", op.weight).reads("bias", op.bias).reads("bias_copy", op.bias_copy);
    f.writes("y", op.y);
  }
  double flops() const { return 2.0 * static_cast<double>(x.rows() * weight.shape[0] * weight.shape[1]); }
  /// A backend reads either bias or bias_copy.
  double bytes() const { return field_bytes(*this) - total_bytes({bias_copy}); }
};

/// dx = dy W, or dx += dy W. With `gate`, also applies the backward of gate = dropout(relu(z)):
///   dx = (gate > 0 ? gate_scale : 0) * dy W
/// A positive gate element was neither dropped nor clipped by ReLU.
struct LinearBackwardData {
  ConstTensor dy;      // [rows, out]; may be strided
  ConstTensor weight;  // [out, in], same type as dy
  Tensor dx;           // [rows, in], type of dy or f32; may be strided
  bool accumulate = false;
  ConstTensor gate;      // [rows, in], same type as dx; may be strided; may be absent; excludes accumulate
  float gate_scale = 1;  // DropoutKey::scale(), 1 without dropout
  /// [in] f32: sums of dx's columns as dx is stored, the bias gradient of the layer that computed z. Requires `gate`.
  /// Not computed if absent.
  Tensor dbias;
  bool accumulate_dbias = true;  // if false, dbias is overwritten
  static constexpr std::string_view name = "linear_backward_data";
  void check() const;
  static void fields(auto& op, auto&& f) {
    f.reads("dy", op.dy).reads("weight", op.weight).reads("gate", op.gate);
    op.accumulate ? f.updates("dx", op.dx) : f.writes("dx", op.dx);
    op.accumulate_dbias ? f.updates("dbias", op.dbias) : f.writes("dbias", op.dbias);
  }
  double flops() const { return 2.0 * static_cast<double>(dy.rows() * weight.shape[0] * weight.shape[1]); }
};

/// dW += dy^T x and dbias += column sums of dy, both in f32.
struct LinearBackwardWeight {
  ConstTensor dy;          // [rows, out]; may be strided
  ConstTensor x;           // [rows, in], same type as dy; may be strided
  Tensor dweight;          // [out, in] f32, added to
  Tensor dbias;            // [out] f32, added to; not computed if absent
  bool accumulate = true;  // if false, both are overwritten
  static constexpr std::string_view name = "linear_backward_weight";
  void check() const;
  static void fields(auto& op, auto&& f) {
    f.reads("dy", op.dy).reads("x", op.x);
    op.accumulate ? f.updates("dweight", op.dweight).updates("dbias", op.dbias)
                  : f.writes("dweight", op.dweight).writes("dbias", op.dbias);
  }
  double flops() const { return 2.0 * static_cast<double>(dy.rows() * dweight.shape[0] * dweight.shape[1]); }
};

/// y = activation(x W^T + bias) in products of 8 bits. Each row of x is rounded, too, as quantize() rounds one of W:
///   x(r, k) ~ a(r) p(r, k), a(r) = max |x(r, .)| / 127     W(i, k) ~ s(i) q(i, k)
///   y(r, i) = activation((a(r) s(i)) sum_k p(r, k) q(i, k) + bias(i))
/// The sums are exact and the rest is rounded in f32 in this order, so a row of y depends neither on the other rows nor
/// on the processor. It differs from the product of x and W by at most the sum over k of |x| s/2 + |W| a/2 + a s/4. A
/// row of x with an infinity or a NaN has NaN in y. Source of the scheme: Jacob et al. 2018, "Quantization and Training
/// of Neural Networks for Efficient Integer-Arithmetic-Only Inference", here symmetric and with a scale for each row.
struct QuantizedLinear {
  ConstTensor x;  // [rows, in] f32; may be strided
  QuantizedWeight weight;
  std::int64_t first = 0;                    // y has the weight's outputs [first, first + outputs)
  ConstTensor bias;                          // [outputs] f32, of these; no bias if absent
  Tensor y;                                  // [rows, outputs] f32, overwritten; may be strided; must not alias x
  Activation activation = Activation::none;  // none or relu
  static constexpr std::string_view name = "quantized_linear";
  void check() const;
  static void fields(auto& op, auto&& f) {
    f.reads("x", op.x).reads("elements", op.weight.elements).reads("scales", op.weight.scales);
    f.reads("sums", op.weight.sums).reads("bias", op.bias).writes("y", op.y);
  }
  double flops() const { return 2.0 * static_cast<double>(x.rows() * y.columns() * x.columns()); }
  double bytes() const { return total_bytes({x, bias, y}) + static_cast<double>(y.columns() * (weight.shape[1] + 8)); }
};

/// The max number of inputs of a quantized weight: sums of products of 8 bits stay below 2^31.
constexpr std::int64_t max_quantized_inputs = 131072;

/// A quantized weight and its memory.
struct QuantizedCopy {
  QuantizedWeight weight;
  Buffer elements, scales, sums;
};

/// Rounds a contiguous f32 weight [out, in] in host memory: scales[i] = max |w(i, .)| / 127, q = w / scales[i] to the
/// nearest, ties to even. A row whose largest magnitude is below 1e-30 becomes 0. Throws Failure that begins with
/// `name` if an element is not finite or there are more than max_quantized_inputs.
QuantizedCopy quantize(const ConstTensor& weight, std::string_view name);

}  // namespace babelring
