#pragma once

#include "nmt/layers/context.h"

namespace babelring {

/// Sums over the target tokens of a micro-batch.
struct LossSums {
  double loss = 0;  // label-smoothed, nats
  double nll = 0;   // without smoothing, nats
  double correct = 0;
  double tokens = 0;

  LossSums& operator+=(const LossSums& other) {
    loss += other.loss;
    nll += other.nll;
    correct += other.correct;
    tokens += other.tokens;
    return *this;
  }
};

/// Projection to the vocabulary and label-smoothed cross-entropy, some thousand tokens at a time, forward and
/// backward in one pass: logits never take more than 160 MB (or 256 rows).
class OutputLoss {
 public:
  /// `projection` is [vocabulary, width]: the target embedding when tied.
  OutputLoss(const Parameter& projection, float label_smoothing);

  /// hidden [tokens, width], targets [tokens] i32. With `dhidden`, writes the gradient of gradient_scale * sum of
  /// losses and adds to (or, as context.accumulate says, overwrites) the projection's gradient; whether that is then
  /// complete only the model knows. `predicted` [tokens] i32: the likeliest piece at each place; absent: not wanted.
  LossSums run(Context& context, ConstTensor hidden, ConstTensor targets, float gradient_scale, Tensor dhidden,
               Tensor predicted = {}) const;

  /// What run() takes of context.scratch.
  static std::int64_t scratch_bytes(std::int64_t tokens, std::int64_t vocabulary, DType dtype);

  /// Logits [rows, vocabulary] in context.scratch.
  Tensor logits(Context& context, ConstTensor hidden) const;

 private:
  const Parameter* projection_;
  float label_smoothing_;
};

}  // namespace babelring
