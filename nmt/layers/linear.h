#pragma once

#include <string>

#include "nmt/layers/context.h"
#include "nmt/ops/linear.h"

namespace babelring {

/// y = x W^T + b.
class Linear {
 public:
  /// Declares NAME.weight [out, in] and, with `bias`, NAME.bias [out].
  Linear(ParameterStore& store, const std::string& name, std::int64_t in, std::int64_t out, bool bias,
         Initializer initializer);

  /// [rows, in] → [rows, out], into `arena`.
  Tensor forward(Context& context, Arena& arena, ConstTensor x) const;
  /// The same into y, which may be strided.
  void forward_into(Context& context, ConstTensor x, Tensor y) const;
  /// y = relu(x W^T + b). With `keep_mask`, also what backward_through_relu() of the next layer may take in y's stead,
  /// into context.saved; absent where the backend has none.
  Tensor forward_relu(Context& context, ConstTensor x, Tensor y, bool keep_mask) const;

  /// Only output features [first, first + y.columns()), into y: the parts of a fused projection.
  void forward_rows(Context& context, ConstTensor x, std::int64_t first, Tensor y) const;

  /// Adds to the gradients of weight and bias, reports them ready, and writes (or adds) dx; `dx` may be absent.
  void backward(Context& context, ConstTensor dy, ConstTensor x, Tensor dx, bool accumulate = false) const;
  /// The same without dx.
  void backward_parameters(Context& context, ConstTensor dy, ConstTensor x) const;

  /// The same where x = dropout(relu(z)): writes the gradient of z, with the dropout's scale. `relu_mask` is what
  /// forward_relu() returned, absent if x was dropped from.
  void backward_through_relu(Context& context, ConstTensor dy, ConstTensor x, ConstTensor relu_mask, Tensor dz,
                             float dropout_scale) const;

  std::int64_t out() const { return weight_->shape[0]; }
  const Parameter& weight() const { return *weight_; }
  /// Null where there is none.
  const Parameter* bias() const { return bias_; }

 private:
  LinearForward forward_op(const Context& context, ConstTensor x, Tensor y) const;

  const Parameter* weight_;
  const Parameter* bias_ = nullptr;
};

}  // namespace babelring
