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

/// y = x with conversion between f32 and bf16; a copy if both have the same type.
struct Cast {
  ConstTensor x;  // any shape, contiguous
  Tensor y;       // the same shape
  static constexpr std::string_view name = "cast";
  void check() const;
  static void fields(auto& op, auto&& f) { f.reads("x", op.x).writes("y", op.y); }
};

/// y = value everywhere (f32, bf16).
struct Fill {
  Tensor y;  // contiguous
  float value = 0;
  static constexpr std::string_view name = "fill";
  void check() const;
  static void fields(auto& op, auto&& f) { f.writes("y", op.y); }
};

/// y += x.
struct Add {
  ConstTensor x;  // any shape, contiguous
  Tensor y;       // the same shape and type
  static constexpr std::string_view name = "add";
  void check() const;
  static void fields(auto& op, auto&& f) { f.reads("x", op.x).updates("y", op.y); }
};

}  // namespace babelring
