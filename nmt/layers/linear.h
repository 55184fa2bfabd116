#pragma once

#include <string>
#include <vector>

#include "nmt/layers/context.h"
#include "nmt/ops/linear.h"

namespace babelring {

/// Whether backward still has to compute the gradient of a layer's bias. What wrote the gradient of the layer's output,
/// Linear::backward_through_relu() of the next layer or Norm::backward_sum(), may have done so.
enum class BiasGradient { missing, complete };

/// The gradient of a layer's output [rows, out].
struct OutputGradient {
  OutputGradient(ConstTensor gradient, BiasGradient of_bias = BiasGradient::missing) : dy(gradient), bias(of_bias) {}
  OutputGradient(Tensor gradient, BiasGradient of_bias = BiasGradient::missing) : dy(gradient), bias(of_bias) {}

  ConstTensor dy;
  BiasGradient bias;
};

/// Fully connected layer: y = x W^T + b.
class Linear {
 public:
  /// Declares NAME.weight [out, in] and, with `bias`, NAME.bias [out].
  Linear(ParameterStore& store, const std::string& name, std::int64_t in, std::int64_t out, bool bias,
         Initializer initializer);

  /// x [rows, in] → [rows, out] in `arena`.
  Tensor forward(Context& context, Arena& arena, ConstTensor x) const;
  /// Like forward(), but writes y, which may be strided.
  void forward_into(Context& context, ConstTensor x, Tensor y) const;
  /// Writes y = relu(x W^T + b).
  void forward_relu(Context& context, ConstTensor x, Tensor y) const;

  /// Writes output features [first, first + y.columns()) only: one part of a fused projection.
  void forward_rows(Context& context, ConstTensor x, std::int64_t first, Tensor y) const;

  /// Accumulates the gradients of weight and bias (or overwrites them, see Context::accumulate) and reports them ready.
  /// Writes dx, or adds to it with `accumulate`. `dx` may be null.
  void backward(Context& context, const OutputGradient& d, ConstTensor x, Tensor dx, bool accumulate = false) const;
  /// Like backward(), without dx.
  void backward_parameters(Context& context, const OutputGradient& d, ConstTensor x) const;

  /// Like backward(), for x = dropout(relu(z)), where `before` computed z: writes dz, scaled by `dropout_scale`.
  /// Returns whether the gradient of `before`'s bias is complete, too; it is not reported ready.
  BiasGradient backward_through_relu(Context& context, const OutputGradient& d, ConstTensor x, Tensor dz,
                                     float dropout_scale, const Linear& before) const;

  std::int64_t out() const { return weight_->shape[0]; }
  const Parameter& weight() const { return *weight_; }
  /// Null if the layer has no bias.
  const Parameter* bias() const { return bias_; }

 private:
  void multiply(Context& context, ConstTensor x, std::int64_t first, Tensor y, Activation activation) const;

  const Parameter* weight_;
  const Parameter* bias_ = nullptr;
};

/// Several projections of the same input as one matmul: y = x [W_1; W_2; …]^T + [b_1, b_2, …]. Backward computes
/// dx = dy [W_1; W_2; …] and sums over all parts in f32. Every pass copies the weights into one matrix. Used if
/// Backend::prefers_fused_matmuls() is true.
class FusedLinear {
 public:
  struct Saved {
    Tensor weight;  // [parts * out, in]
    Tensor y;       // [rows, parts * out]
  };
  /// All parts have the same shape, and all or none have a bias. They must outlive this object.
  explicit FusedLinear(std::vector<const Linear*> parts);

  /// x [rows, in] → [rows, parts * out] in context.saved. Columns [i * out, (i + 1) * out) belong to part i.
  Tensor forward(Context& context, ConstTensor x, Saved& saved) const;
  /// Overwrites dx [rows, in]. The caller computes weight and bias gradients with Linear::backward_parameters() of each
  /// part.
  void backward_data(Context& context, ConstTensor dy, const Saved& saved, Tensor dx) const;

  /// Output features of each part.
  std::int64_t out() const { return parts_.front()->out(); }

 private:
  std::vector<const Linear*> parts_;
};

}  // namespace babelring
