#pragma once

#include <string>

#include "nmt/layers/context.h"

namespace babelring {

/// Layer normalisation with gain and bias. Source: Ba et al. 2016.
class Norm {
 public:
  struct Saved {
    ConstTensor x;
    Tensor mean, rstd;
  };
  /// Declares NAME.gain and NAME.bias, [width].
  Norm(ParameterStore& store, const std::string& name, std::int64_t width);

  /// x [rows, width] → [rows, width] in context.saved. `saved` refers to x, which must stay valid for backward.
  Tensor forward(Context& context, ConstTensor x, Saved& saved) const;
  /// Like forward() for x = residual + dropout(branch). The sum is kept in context.saved.
  Tensor forward_sum(Context& context, ConstTensor residual, ConstTensor branch, const DropoutKey& key,
                     Saved& saved) const;

  /// Writes dx, or adds to it with `accumulate`. Also computes the gradients of gain and bias and reports them ready.
  void backward(Context& context, ConstTensor dy, const Saved& saved, Tensor dx, bool accumulate) const;
  /// Backward of forward_sum(): overwrites dresidual (which may alias dy) and dbranch = dropout(dresidual).
  /// `dbranch_bias`: [width] f32, receives the sums of dbranch's columns (as Context::accumulate says); may be null.
  void backward_sum(Context& context, ConstTensor dy, const Saved& saved, const DropoutKey& key, Tensor dresidual,
                    Tensor dbranch, Tensor dbranch_bias) const;

 private:
  Saved begin_forward(Context& context, ConstTensor x) const;
  LayerNormBackward backward_op(const Context& context, ConstTensor dy, const Saved& saved, Tensor dx) const;
  void run_backward(Context& context, const LayerNormBackward& op) const;

  const Parameter* gain_;
  const Parameter* bias_;
};

}  // namespace babelring
