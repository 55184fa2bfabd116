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

  /// dx = or += gradient; adds to the parameters' gradients.
  void backward(Context& context, ConstTensor dy, const Saved& saved, Tensor dx, bool accumulate) const;

 private:
  const Parameter* gain_;
  const Parameter* bias_;
};

}  // namespace babelring
