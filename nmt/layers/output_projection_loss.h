#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "nmt/core/packed_batch.h"
#include "nmt/layers/context.h"
#include "nmt/ops/linear.h"

namespace babelring {

struct CrossEntropy;

/// Sums over the target tokens of a micro-batch.
struct LossSums {
  double loss = 0;  // label-smoothed, nats
  double nll = 0;   // without smoothing, nats
  double correct = 0;
  double tokens = 0;
  double alignment = 0;  // guided attention's loss, nats; 0 without it
  double r_drop = 0;     // a quarter of the divergences of two passes, nats; 0 without R-Drop

  /// Calls visit(sum) for each sum.
  template <class Visit>
  void each(const Visit& visit) {
    for (double* sum : {&loss, &nll, &correct, &tokens, &alignment, &r_drop}) visit(*sum);
  }
  LossSums& operator+=(const LossSums& other) {
    loss += other.loss;
    nll += other.nll;
    correct += other.correct;
    tokens += other.tokens;
    alignment += other.alignment;
    r_drop += other.r_drop;
    return *this;
  }
};

/// Loss and target tokens by corpus, of the numbers in PackedBatch::corpora.
struct CorpusSums {
  std::vector<double> loss = {}, tokens = {};  // label-smoothed, nats

  CorpusSums() = default;
  explicit CorpusSums(std::size_t corpora) : loss(corpora), tokens(corpora) {}
  template <class Visit>
  void each(const Visit& visit) {
    for (std::vector<double>* sums : {&loss, &tokens}) {
      for (double& sum : *sums) visit(sum);
    }
  }
  CorpusSums& operator+=(const CorpusSums& other) {
    for (std::size_t i = 0; i < loss.size(); ++i) {
      loss[i] += other.loss[i];
      tokens[i] += other.tokens[i];
    }
    return *this;
  }
};

/// The token losses of a micro-batch during an asynchronous copy from the device.
class FetchedLosses {
 public:
  /// Starts copying `losses`, the result of OutputProjectionLoss::run(); null means no tokens. The last `padding` rows
  /// have no target and do not count as tokens.
  FetchedLosses(Backend& backend, ConstTensor losses, std::int64_t padding = 0)
      : losses_(losses ? backend.fetch(losses) : nullptr), kinds_(losses.rows()), padding_(padding) {}

  /// Valid only after the backend's next synchronize() or download().
  LossSums sums() const;
  /// Adds the losses of each sentence of the batch to those of its corpus. Valid when sums() is.
  void add_to(CorpusSums& sums, const PackedBatch& batch) const;
  /// Sets the mean nll of each sentence of the batch in those of the update. Valid when sums() is.
  void set_means(std::vector<double>& sentences, const PackedBatch& batch) const;

 private:
  double sum_of_sentence(std::size_t kind, const PackedBatch& batch, std::size_t sentence) const;

  std::shared_ptr<const std::vector<float>> losses_;
  std::int64_t kinds_, padding_;
};

/// Rows of an output projection side by side, so that a search computes the logits of few ids alone. A logit has the
/// bits that the whole projection gives it.
struct OutputRows {
  Shape shape;                                 // [ids, width]
  Buffer weight;                               // in the type of matmuls; in int8 `quantized` instead
  std::unique_ptr<const PackedWeight> packed;  // `weight`
  QuantizedCopy quantized;
  Buffer bias;  // [ids] f32; empty without a bias
};

/// Output projection and label-smoothed cross-entropy. Computes forward and backward in one pass over chunks of tokens,
/// so only one chunk of logits is in memory at a time. Backend::loss_chunks() sets the chunk size.
class OutputProjectionLoss {
 public:
  /// `projection` is [vocabulary, width]; with tied embeddings, it is the target embedding table. `bias` is declared by
  /// declare_bias(), or null.
  OutputProjectionLoss(const Parameter& projection, const Parameter* bias, float label_smoothing);

  static constexpr const char* bias_name = "output.bias";
  /// Declares `bias_name` [vocabulary], initially zeros.
  static const Parameter& declare_bias(ParameterStore& store, std::int64_t vocabulary);

  /// hidden [tokens, width], targets [tokens] i32. With `dhidden` [tokens, width], writes the gradient of
  /// gradient_scale * sum(losses) to it and computes the gradients of projection and bias (added or overwritten, see
  /// Context::accumulate). Reports neither ready: embeddings may still add to a shared table. Writes the
  /// most likely id at each position to `predicted` [tokens] i32 unless null.
  /// Returns [3, tokens] f32 in context.saved: all losses, then all nlls, then 1 for each correct prediction, else 0.
  /// With `guided` it is [4, tokens], and the caller writes the last row: the losses of guided attention.
  Tensor run(Context& context, ConstTensor hidden, ConstTensor targets, float gradient_scale, Tensor dhidden,
             Tensor predicted = {}, bool guided = false) const;

  /// run() with gradients for two passes over the same targets, whose outputs are `first` and `second`. Of each token
  /// the loss is the mean of its two losses, plus `r_drop` / 4 times SymmetricDivergence's. `dfirst` and `dsecond`
  /// [tokens, width] receive the gradients. Source: Liang et al. 2021, eq. 3, of which this is the half. Returns [9,
  /// tokens] f32 in context.saved: losses, nlls, correct predictions and a row for guided attention of the first pass,
  /// the same of the second, and the divergences.
  Tensor run_twice(Context& context, ConstTensor first, ConstTensor second, ConstTensor targets, float gradient_scale,
                   float r_drop, Tensor dfirst, Tensor dsecond) const;
  static constexpr std::int64_t pass_rows = 4;  // of a pass in that result

  /// The rows of these ids. Throws Failure unless the backend's memory is the host's.
  OutputRows rows_of(Backend& backend, std::span<const std::int32_t> ids) const;
  /// Logits [rows, vocabulary] in context.scratch; with `only` [rows, ids], those of its ids.
  Tensor logits(Context& context, ConstTensor hidden, const OutputRows* only = nullptr) const;

 private:
  CrossEntropy loss_op(const Tensor& losses, std::int64_t row, ConstTensor logits, ConstTensor targets,
                       float gradient_scale, Tensor dlogits) const;
  void backward(Context& context, ConstTensor dlogits, ConstTensor hidden, Tensor dhidden, bool accumulate) const;
  void multiply(Context& context, ConstTensor hidden, Tensor logits) const;

  const Parameter* projection_;
  const Parameter* bias_;
  float label_smoothing_;
};

}  // namespace babelring
