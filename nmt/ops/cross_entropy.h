#pragma once

#include <cstdint>
#include <string_view>

#include "nmt/core/tensor.h"

namespace babelring {

/// Label-smoothed cross-entropy and its gradient, row by row, with p = softmax(logits) and
/// q = (1 - smoothing) * onehot(target) + smoothing / vocabulary:
///   loss = -sum q log p;  dlogits = gradient_scale * (p - q)
/// All results of a row without a target are 0.
/// All sums in f32 or wider.  Source: Szegedy et al. 2016, section 7.
struct CrossEntropy {
  static constexpr std::int32_t no_target = -1;  // of a row that only pads others
  ConstTensor logits;                            // [rows, vocabulary], f32 or bf16; may be strided
  ConstTensor targets;                           // [rows] i32: a place in the vocabulary, or no_target
  float smoothing = 0;
  float gradient_scale = 1;
  Tensor dlogits;         // as logits; may alias logits; absent: no gradient is wanted
  Tensor loss;            // [rows] f32
  Tensor nll;             // [rows] f32: -log p[target]
  Tensor correct;         // [rows] f32: 1 where the largest logit is the target's, else 0
  Tensor predicted = {};  // [rows] i32: where the largest logit is, the first of equal ones; absent: not wanted
  static constexpr std::string_view name = "cross_entropy";
  void check() const;
  double flops() const { return 0; }
  double bytes() const { return total_bytes({logits, targets, dlogits, loss, nll, correct, predicted}); }
};

/// The k largest log-probabilities of each row of logits, in falling order; ties: the smaller index first.
struct LogSoftmaxTopK {
  ConstTensor logits;  // [rows, vocabulary]
  Tensor scores;       // [rows, k] f32: log p
  Tensor indices;      // [rows, k] i32
  static constexpr std::string_view name = "log_softmax_top_k";
  void check() const;
  double flops() const { return 0; }
  double bytes() const { return total_bytes({logits, scores, indices}); }
};

}  // namespace babelring
