#include "nmt/layers/output_loss.h"

#include <algorithm>
#include <vector>

namespace babelring {

namespace {

constexpr std::int64_t chunk_bytes = 160 << 20;  // of logits at once
constexpr std::int64_t least_chunk_rows = 256;

std::int64_t padded_columns(std::int64_t vocabulary) {
  return (vocabulary + 31) / 32 * 32;  // to whole cache lines
}

std::int64_t rows_of_chunk(std::int64_t vocabulary, DType dtype) {
  const auto row_bytes = padded_columns(vocabulary) * static_cast<std::int64_t>(size_of(dtype));
  return std::max(least_chunk_rows, chunk_bytes / row_bytes);
}

double sum_of(const std::vector<float>& values) {
  double total = 0;
  for (const float value : values) total += static_cast<double>(value);
  return total;
}

/// Per-token results of CrossEntropy for all chunks.
struct TokenLosses {
  Tensor loss, nll, correct;  // [tokens] f32

  TokenLosses(Arena& arena, std::int64_t tokens)
      : loss(arena.make(Shape{tokens}, DType::f32)),
        nll(arena.make(Shape{tokens}, DType::f32)),
        correct(arena.make(Shape{tokens}, DType::f32)) {}

  LossSums sums(Backend& backend) const {
    std::vector<float> host(static_cast<std::size_t>(loss.shape[0]));
    const auto total = [&](const Tensor& tensor) {
      backend.download(tensor, host.data());
      return sum_of(host);
    };
    return {
        .loss = total(loss), .nll = total(nll), .correct = total(correct), .tokens = static_cast<double>(host.size())};
  }
};

}  // namespace

OutputLoss::OutputLoss(const Parameter& projection, float label_smoothing)
    : projection_(&projection), label_smoothing_(label_smoothing) {}

std::int64_t OutputLoss::scratch_bytes(std::int64_t tokens, std::int64_t vocabulary, DType dtype) {
  const std::int64_t rows = std::min(tokens, rows_of_chunk(vocabulary, dtype));
  return rows * padded_columns(vocabulary) * static_cast<std::int64_t>(size_of(dtype)) +
         3 * tokens * static_cast<std::int64_t>(sizeof(float));
}

Tensor OutputLoss::logits(Context& context, ConstTensor hidden) const {
  Tensor logits = context.scratch.make(Shape{hidden.rows(), projection_->shape[0]}, context.dtype);
  context.backend.run(LinearForward{.x = hidden, .weight = projection_->compute, .y = logits});
  return logits;
}

LossSums OutputLoss::run(Context& context, ConstTensor hidden, ConstTensor targets, float gradient_scale,
                         Tensor dhidden, Tensor predicted) const {
  const Arena::Scope scope(context.scratch);
  const TokenLosses losses(context.scratch, hidden.rows());
  const std::int64_t vocabulary = projection_->shape[0], padded = padded_columns(vocabulary);
  const std::int64_t chunk_rows = rows_of_chunk(vocabulary, context.dtype);
  for (std::int64_t row = 0; row < hidden.rows(); row += chunk_rows) {
    const Arena::Scope chunk_scope(context.scratch);
    const std::int64_t rows = std::min(chunk_rows, hidden.rows() - row);
    const ConstTensor h = hidden.row_slice(row, rows);
    context.enter(Phase::forward);
    const Tensor chunk = context.scratch.make(Shape{rows, padded}, context.dtype).column_slice(0, vocabulary);
    context.backend.run(LinearForward{.x = h, .weight = projection_->compute, .y = chunk});
    context.backend.run(CrossEntropy{.logits = chunk,
                                     .targets = targets.row_slice(row, rows),
                                     .smoothing = label_smoothing_,
                                     .gradient_scale = gradient_scale,
                                     .dlogits = dhidden ? chunk : Tensor(),
                                     .loss = losses.loss.row_slice(row, rows),
                                     .nll = losses.nll.row_slice(row, rows),
                                     .correct = losses.correct.row_slice(row, rows),
                                     .predicted = predicted ? predicted.row_slice(row, rows) : Tensor()});
    if (!dhidden) continue;
    context.enter(Phase::backward);
    context.backend.run(LinearBackwardWeight{
        .dy = chunk, .x = h, .dweight = projection_->gradient, .accumulate = context.accumulate || row > 0});
    context.backend.run(
        LinearBackwardData{.dy = chunk, .weight = projection_->compute, .dx = dhidden.row_slice(row, rows)});
  }
  return losses.sums(context.backend);
}

}  // namespace babelring
