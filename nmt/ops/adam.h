#pragma once

#include <cstdint>
#include <string_view>

#include "nmt/core/tensor.h"

namespace babelring {

/// One Adam step over a flat range, in one pass.  Source: Kingma and Ba 2015, algorithm 1, with bias correction;
/// weight decay decoupled (Loshchilov and Hutter 2019, algorithm 2).
///   g = gradient_scale * gradient;  m = b1 m + (1 - b1) g;  v = b2 v + (1 - b2) g^2
///   master -= learning_rate * (m / (1 - b1^t) / (sqrt(v / (1 - b2^t)) + eps) + weight_decay * master)
struct AdamUpdate {
  Tensor master;             // [n] f32, updated
  ConstTensor gradient;      // [n] f32
  Tensor m, v;               // [n] f32, updated
  Tensor compute;            // [n] bf16: the rounded master; absent in f32 mode
  float gradient_scale = 1;  // from clipping by the global norm
  float learning_rate = 0;
  float beta1 = 0.9f, beta2 = 0.98f, eps = 1e-9f, weight_decay = 0;
  std::int64_t step = 1;  // t, from 1
  static constexpr std::string_view name = "adam_update";
  void check() const;
  double flops() const { return 0; }
  double bytes() const { return total_bytes({master, master, gradient, m, m, v, v, compute}); }
};

/// sum = sum of squares of x, accumulated in double in a fixed order; non-finite if any element is.
struct SquaredNorm {
  ConstTensor x;  // any shape, contiguous, f32
  Tensor sum;     // [1] f32
  static constexpr std::string_view name = "squared_norm";
  void check() const;
  double flops() const { return 0; }
  double bytes() const { return total_bytes({x, sum}); }
};

}  // namespace babelring
