#pragma once

#include <memory>
#include <vector>

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

/// Losses of a micro-batch's tokens on their way from the device.
class FetchedLosses {
 public:
  /// Fetches what OutputLoss::run() returned; absent: of no tokens. The last `padding` rows have no target.
  FetchedLosses(Backend& backend, ConstTensor losses, std::int64_t padding = 0)
      : losses_(losses ? backend.fetch(losses) : nullptr), padding_(padding) {}

  /// Only after the backend's next synchronize() or download().
  LossSums sums() const;

 private:
  std::shared_ptr<const std::vector<float>> losses_;
  std::int64_t padding_;
};

/// Projection to the vocabulary and label-smoothed cross-entropy, forward and backward in one pass, in chunks of some
/// thousand tokens as Backend::loss_chunks() says: only one chunk's logits are in memory at a time.
class OutputLoss {
 public:
  /// `projection` is [vocabulary, width]: the target embedding when tied.
  OutputLoss(const Parameter& projection, float label_smoothing);

  /// hidden [tokens, width], targets [tokens] i32. With `dhidden`, writes the gradient of gradient_scale * sum of
  /// losses and adds to (or, as context.accumulate says, overwrites) the projection's gradient; whether that is then
  /// complete only the model knows. `predicted` [tokens] i32: the likeliest piece at each place; absent: not wanted.
  /// Returns [3 * tokens] f32 in context.saved: each token's loss, then each one's nll, then 1 or 0 for correct or not.
  ConstTensor run(Context& context, ConstTensor hidden, ConstTensor targets, float gradient_scale, Tensor dhidden,
                  Tensor predicted = {}) const;

  /// What run() takes of context.scratch on a backend with these chunks.
  static std::int64_t scratch_bytes(std::int64_t tokens, std::int64_t vocabulary, DType dtype,
                                    const LossChunks& chunks);

  /// Logits [rows, vocabulary] in context.scratch.
  Tensor logits(Context& context, ConstTensor hidden) const;

 private:
  const Parameter* projection_;
  float label_smoothing_;
};

}  // namespace babelring
