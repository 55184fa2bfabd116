#pragma once

#include <string_view>

#include "nmt/core/random.h"
#include "nmt/core/tensor.h"

namespace babelring {

/// y = mask(key) * scale * x. The backward is the same op on the gradient with the same key.
struct Dropout {
  ConstTensor x;  // [rows, width]; may be strided
  Tensor y;       // same shape and type as x; may alias x
  DropoutKey key;
  static constexpr std::string_view name = "dropout";
  void check() const;
  double flops() const { return 0; }
  double bytes() const { return total_bytes({x, y}); }
};

/// y = residual + mask(key) * scale * branch. Backward: dresidual = dy, dbranch = Dropout(dy, key).
struct ResidualDropout {
  ConstTensor residual, branch;  // [rows, width]
  Tensor y;                      // may alias either
  DropoutKey key;
  static constexpr std::string_view name = "residual_dropout";
  void check() const;
  double flops() const { return 0; }
  double bytes() const { return total_bytes({residual, branch, y}); }
};

}  // namespace babelring
