#pragma once

#include <string_view>

#include "nmt/core/random.h"
#include "nmt/core/tensor.h"
#include "nmt/ops/linear.h"

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

/// y = mask(key) * scale * act(z), with one of
///   swish  act(z) = z / (1 + e^-z)                                      Source: Ramachandran et al. 2017, 3
///   gelu   act(z) = z Phi(z), Phi(z) = (1 + erf(z / sqrt 2)) / 2       Source: Hendrycks and Gimpel 2016, 2
/// or, of two tensors,
///   swiglu  act(z, up) = up z / (1 + e^-z)          Source: Shazeer 2020, "GLU Variants Improve Transformer", eq. 5
struct ActivationForward {
  ConstTensor z;  // [rows, width]; may be strided
  Tensor y;       // same shape and type as z; may be strided; may alias z
  Activation activation = Activation::swish;
  DropoutKey key;
  ConstTensor up = {};  // like z, with swiglu only
  static constexpr std::string_view name = "activation_forward";
  void check() const;
  static void fields(auto& op, auto&& f) { f.reads("z", op.z).reads("up", op.up).writes("y", op.y); }
};

/// dz = act'(z) * mask(key) * scale * dy, with s = 1 / (1 + e^-z) and phi(z) = e^(-z^2 / 2) / sqrt(2 pi):
///   swish  act'(z) = s + z s (1 - s)
///   gelu   act'(z) = Phi(z) + z phi(z)
///   swiglu  dz as with swish, times up; dup = z s * mask(key) * scale * dy
struct ActivationBackward {
  ConstTensor dy, z;  // [rows, width], one type; may be strided
  Tensor dz;          // same shape and type; may be strided; may alias dy or z
  Activation activation = Activation::swish;
  DropoutKey key;
  ConstTensor up = {};  // like z, with swiglu only
  Tensor dup = {};      // like dz, with swiglu only; may alias dy or up
  static constexpr std::string_view name = "activation_backward";
  void check() const;
  static void fields(auto& op, auto&& f) {
    f.reads("dy", op.dy).reads("z", op.z).reads("up", op.up).writes("dz", op.dz).writes("dup", op.dup);
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
