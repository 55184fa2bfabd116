#include "nmt/layers/output_projection_loss.h"

#include <algorithm>

#include "nmt/ops/cross_entropy.h"
#include "nmt/ops/linear.h"

namespace babelring {

namespace {

std::int64_t padded_columns(std::int64_t vocabulary) {
  return (vocabulary + 31) / 32 * 32;  // whole cache lines
}

std::int64_t logits_row_bytes(std::int64_t vocabulary, DType dtype) {
  return padded_columns(vocabulary) * static_cast<std::int64_t>(size_of(dtype));
}

}  // namespace

LossSums FetchedLosses::sums() const {
  if (losses_ == nullptr) return {};
  const std::size_t tokens = losses_->size() / static_cast<std::size_t>(kinds_);
  const auto sum_of = [&](std::size_t first) {
    double total = 0;
    for (std::size_t i = first; i < first + tokens; ++i) total += static_cast<double>((*losses_)[i]);
    return total;
  };
  return {.loss = sum_of(0),
          .nll = sum_of(tokens),
          .correct = sum_of(2 * tokens),
          .tokens = static_cast<double>(tokens) - static_cast<double>(padding_),
          .alignment = kinds_ > 3 ? sum_of(3 * tokens) : 0};
}

OutputProjectionLoss::OutputProjectionLoss(const Parameter& projection, const Parameter* bias, float label_smoothing)
    : projection_(&projection), bias_(bias), label_smoothing_(label_smoothing) {}

const Parameter& OutputProjectionLoss::declare_bias(ParameterStore& store, std::int64_t vocabulary) {
  return store.declare(bias_name, Shape{vocabulary}, Initializer::zeros());
}

LinearForward OutputProjectionLoss::logits_op(const Context& context, ConstTensor hidden, Tensor logits) const {
  return {.x = hidden,
          .weight = projection_->compute,
          .bias = bias_ != nullptr ? ConstTensor(bias_->master) : ConstTensor(),
          .y = logits,
          .bias_copy = bias_ != nullptr ? bias_->compute : ConstTensor(),
          .packed = context.packed(projection_->compute, true)};
}

Tensor OutputProjectionLoss::logits(Context& context, ConstTensor hidden) const {
  context.will_read(projection_);
  context.will_read(bias_);
  context.will_multiply(*projection_, hidden);
  Tensor logits = context.scratch.make(Shape{hidden.rows(), projection_->shape[0]}, context.dtype);
  context.backend.run(logits_op(context, hidden, logits));
  return logits;
}

Tensor OutputProjectionLoss::run(Context& context, ConstTensor hidden, ConstTensor targets, float gradient_scale,
                                 Tensor dhidden, Tensor predicted, bool guided) const {
  const WorkRange range(context.backend, "output_loss");
  context.will_read(projection_);
  context.will_read(bias_);
  const std::int64_t tokens = hidden.rows();
  const Tensor all_losses = context.saved.make(Shape{guided ? 4 : 3, tokens}, DType::f32);
  const Tensor losses(all_losses.data, Shape{all_losses.shape.elements()}, DType::f32);
  const std::int64_t vocabulary = projection_->shape[0], row_bytes = logits_row_bytes(vocabulary, context.dtype);
  const LossChunks chunks = context.backend.loss_chunks();
  const std::int64_t chunk_rows = chunks.chunk_rows(tokens, row_bytes);
  const Arena::Scope logits_scope(context.scratch);
  // Sized for the largest chunk of any pass with up to `tokens` tokens, so memory use grows monotonically with tokens.
  const std::int64_t max_rows = std::min(tokens, chunks.max_rows(row_bytes));
  const Tensor logits =
      context.scratch.make(Shape{max_rows, padded_columns(vocabulary)}, context.dtype).column_slice(0, vocabulary);
  for (std::int64_t row = 0; row < tokens; row += chunk_rows) {
    const std::int64_t rows = std::min(chunk_rows, tokens - row);
    const ConstTensor h = hidden.row_slice(row, rows);
    context.enter(Phase::forward);
    const Tensor chunk = logits.row_slice(0, rows);
    context.backend.run(logits_op(context, h, chunk));
    context.backend.run(CrossEntropy{.logits = chunk,
                                     .targets = targets.row_slice(row, rows),
                                     .smoothing = label_smoothing_,
                                     .gradient_scale = gradient_scale,
                                     .dlogits = dhidden ? chunk : Tensor(),
                                     .loss = losses.row_slice(row, rows),
                                     .nll = losses.row_slice(tokens + row, rows),
                                     .correct = losses.row_slice(2 * tokens + row, rows),
                                     .predicted = predicted ? predicted.row_slice(row, rows) : Tensor()});
    if (!dhidden) continue;
    context.enter(Phase::backward);
    context.backend.run(LinearBackwardWeight{.dy = chunk,
                                             .x = h,
                                             .dweight = projection_->gradient,
                                             .dbias = bias_ != nullptr ? bias_->gradient : Tensor(),
                                             .accumulate = context.accumulate || row > 0});
    context.backend.run(
        LinearBackwardData{.dy = chunk, .weight = projection_->compute, .dx = dhidden.row_slice(row, rows)});
  }
  return all_losses;
}

}  // namespace babelring
