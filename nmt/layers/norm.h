#pragma once

#include <string>

#include "nmt/layers/context.h"

namespace babelring {

/// Layer normalisation with gain and bias.
class Norm {
 public:
  struct Saved {
    ConstTensor x;
    Tensor mean, rstd;
  };
  /// Declares NAME.gain and NAME.bias, [width].
  Norm(ParameterStore& store, const std::string& name, std::int64_t width);

  /// [rows, width] → [rows, width] in context.saved. Keeps x by reference.
  Tensor forward(Context& context, ConstTensor x, Saved& saved) const;
  /// The same of residual + dropout(branch), which is made and kept.
  Tensor forward_sum(Context& context, ConstTensor residual, ConstTensor branch, const DropoutKey& key,
                     Saved& saved) const;

  /// dx = or += gradient; adds to the parameters' gradients.
  void backward(Context& context, ConstTensor dy, const Saved& saved, Tensor dx, bool accumulate) const;
  /// The backward of forward_sum(): dresidual, which may be dy, and dbranch = dropout(dresidual) are overwritten.
  void backward_sum(Context& context, ConstTensor dy, const Saved& saved, const DropoutKey& key, Tensor dresidual,
                    Tensor dbranch) const;

 private:
  Saved make_saved(Context& context, ConstTensor x) const;
  LayerNormBackward backward_op(const Context& context, ConstTensor dy, const Saved& saved, Tensor dx) const;
  void run_backward(Context& context, const LayerNormBackward& op) const;

  const Parameter* gain_;
  const Parameter* bias_;
};

}  // namespace babelring
