#pragma once

#include <cstdint>
#include <string_view>

#include "nmt/core/tensor.h"

namespace babelring {

/// Label-smoothed cross-entropy and its gradient, row by row, with p = softmax(logits) and
/// q = (1 - smoothing) * onehot(target) + smoothing / vocabulary:
///   loss = -sum q log p;  dlogits = gradient_scale * (p - q)
/// All results are 0 for a row without a target. Sums are in f32 or wider. Source: Szegedy et al. 2016, section 7.
struct CrossEntropy {
  static constexpr std::int32_t no_target = -1;  // marks a padding row
  ConstTensor logits;                            // [rows, vocabulary], f32 or bf16; may be strided
  ConstTensor targets;                           // [rows] i32: vocabulary id, or no_target
  float smoothing = 0;
  float gradient_scale = 1;
  Tensor dlogits;         // shape and type of logits; may alias logits; not computed if absent
  Tensor loss;            // [rows] f32
  Tensor nll;             // [rows] f32: -log p[target]
  Tensor correct;         // [rows] f32: 1 if the target has the largest logit, else 0
  Tensor predicted = {};  // [rows] i32: index of the largest logit, the first on ties; not computed if absent
  static constexpr std::string_view name = "cross_entropy";
  void check() const;
  static void fields(auto& op, auto&& f) {
    f.reads("logits", op.logits).reads("targets", op.targets).writes("dlogits", op.dlogits).writes("loss", op.loss);
    f.writes("nll", op.nll).writes("correct", op.correct).writes("predicted", op.predicted);
  }
};

/// How far two predictions are apart, row by row, with p = softmax(first) and q = softmax(second):
///   loss = KL(p || q) + KL(q || p) = sum (p - q) (log p - log q)
///   dfirst += gradient_scale * (p * (log p - log q - KL(p || q)) + p - q), dsecond likewise with p and q exchanged
/// A row without a target has no loss and adds nothing. Sums are in f32 or wider. Source: Liang et al. 2021, "R-Drop:
/// Regularized Dropout for Neural Networks", eq. 2.
struct SymmetricDivergence {
  ConstTensor first, second;  // [rows, vocabulary] logits, f32 or bf16; may be strided
  ConstTensor targets;        // [rows] i32: anything but CrossEntropy::no_target is a target
  float gradient_scale = 1;
  Tensor dfirst, dsecond;  // shape and type of the logits, added to; may be strided
  Tensor loss;             // [rows] f32
  static constexpr std::string_view name = "symmetric_divergence";
  void check() const;
  static void fields(auto& op, auto&& f) {
    f.reads("first", op.first).reads("second", op.second).reads("targets", op.targets);
    f.updates("dfirst", op.dfirst).updates("dsecond", op.dsecond).writes("loss", op.loss);
  }
};

/// The k largest log-probabilities of each row of logits, in descending order; ties: the smaller index first.
struct LogSoftmaxTopK {
  ConstTensor logits;  // [rows, vocabulary]
  Tensor scores;       // [rows, k] f32: log p
  Tensor indices;      // [rows, k] i32
  Tensor all = {};     // [rows, vocabulary] f32: log p of each element, bit-equal to `scores`; not computed if absent
  static constexpr std::string_view name = "log_softmax_top_k";
  void check() const;
  static void fields(auto& op, auto&& f) {
    f.reads("logits", op.logits).writes("scores", op.scores).writes("indices", op.indices).writes("all", op.all);
  }
};

}  // namespace babelring
