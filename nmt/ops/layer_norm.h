#pragma once

#include <string_view>

#include "nmt/core/random.h"
#include "nmt/core/tensor.h"

namespace babelring {

/// y = gain * (x - mean) * rstd + bias, row by row.  Source: Ba et al. 2016, eq. 3-4. Without `bias` and `mean`, which
/// are absent together, y = gain * x * rstd, where rstd is of the mean square instead of the variance.  Source: Zhang
/// and Sennrich 2019, "Root Mean Square Layer Normalization", eq. 4.
struct LayerNormForward {
  ConstTensor x;           // [rows, width]
  ConstTensor gain, bias;  // [width] f32
  Tensor y;                // [rows, width], same type as x; may alias x
  Tensor mean, rstd;       // [rows] f32, kept for LayerNormBackward
  float eps = 1e-5f;
  static constexpr std::string_view name = "layer_norm_forward";
  void check() const;
  static void fields(auto& op, auto&& f) {
    f.reads("x", op.x).reads("gain", op.gain).reads("bias", op.bias);
    f.writes("y", op.y).writes("mean", op.mean).writes("rstd", op.rstd);
  }
};

/// ResidualDropout and LayerNormForward in one pass: sum = residual + mask(key) * scale * branch; y, mean and rstd are
/// the layer norm of the stored (rounded) sum, bias and mean being present or absent as there.
struct ResidualNormForward {
  ConstTensor residual, branch;  // [rows, width], one type
  DropoutKey key;
  ConstTensor gain, bias;  // [width] f32
  Tensor sum;              // [rows, width], same type; may alias residual or branch
  Tensor y;                // same shape and type; must not alias
  Tensor mean, rstd;       // [rows] f32
  float eps = 1e-5f;
  static constexpr std::string_view name = "residual_norm_forward";
  void check() const;
  static void fields(auto& op, auto&& f) {
    f.reads("residual", op.residual).reads("branch", op.branch).reads("gain", op.gain).reads("bias", op.bias);
    f.writes("sum", op.sum).writes("y", op.y).writes("mean", op.mean).writes("rstd", op.rstd);
  }
};

/// With g = dy * gain and n = (x - mean) * rstd:  dx = rstd * (g - mean(g) - n * mean(g n)), dgain += sum dy n, dbias
/// += sum dy. Without `mean` and `dbias`, which are absent together, n = x * rstd and dx = rstd * (g - n * mean(g n)).
/// Sums over rows have a fixed order. With `dbranch` this is the backward of ResidualNormForward: dx is the
/// gradient of both sum and residual, and dbranch = mask(key) * scale * dx. With `dbranch_bias` it also sums dbranch's
/// columns as stored, which is the bias gradient of the linear layer that computed the branch.
struct LayerNormBackward {
  ConstTensor dy, x;                  // [rows, width], one type
  ConstTensor gain;                   // [width] f32
  ConstTensor mean, rstd;             // [rows] f32
  Tensor dx;                          // [rows, width]; may alias dy unless `accumulate` is set
  Tensor dgain, dbias;                // [width] f32, added to
  bool accumulate = false;            // dx += instead of dx =
  Tensor dbranch;                     // [rows, width]; must not alias; not computed if absent
  DropoutKey key;                     // for dbranch
  Tensor dbranch_bias;                // [width] f32, added to; requires dbranch; not computed if absent
  bool accumulate_parameters = true;  // if false, dgain, dbias and dbranch_bias are overwritten
  static constexpr std::string_view name = "layer_norm_backward";
  void check() const;
  static void fields(auto& op, auto&& f) {
    f.reads("dy", op.dy).reads("x", op.x).reads("gain", op.gain).reads("mean", op.mean).reads("rstd", op.rstd);
    op.accumulate ? f.updates("dx", op.dx) : f.writes("dx", op.dx);
    f.writes("dbranch", op.dbranch);
    if (op.accumulate_parameters) {
      f.updates("dgain", op.dgain).updates("dbias", op.dbias).updates("dbranch_bias", op.dbranch_bias);
    } else {
      f.writes("dgain", op.dgain).writes("dbias", op.dbias).writes("dbranch_bias", op.dbranch_bias);
    }
  }
};

}  // namespace babelring
