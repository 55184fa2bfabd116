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
  static void fields(auto& op, auto&& f) { f.reads("x", op.x).writes("y", op.y); }
};

/// y = residual + mask(key) * scale * branch. Backward: dresidual = dy, dbranch = Dropout(dy, key).
struct ResidualDropout {
  ConstTensor residual, branch;  // [rows, width]
  Tensor y;                      // may alias either
  DropoutKey key;
  static constexpr std::string_view name = "residual_dropout";
  void check() const;
  static void fields(auto& op, auto&& f) {
    f.reads("residual", op.residual).reads("branch", op.branch).writes("y", op.y);
  }
};

}  // namespace babelring
