#pragma once

#include <string_view>

#include "nmt/core/tensor.h"

namespace babelring {

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
