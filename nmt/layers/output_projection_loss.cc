#include "nmt/layers/output_projection_loss.h"

#include <algorithm>
#include <cstring>

#include "nmt/ops/cross_entropy.h"

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
  if (kinds_ > 2 * OutputProjectionLoss::pass_rows) {
    const auto mean_of = [&](std::size_t row) {
      return (sum_of(row * tokens) + sum_of((row + OutputProjectionLoss::pass_rows) * tokens)) / 2;
    };
    return {.loss = mean_of(0),
            .nll = mean_of(1),
            .correct = mean_of(2),
            .tokens = static_cast<double>(tokens) - static_cast<double>(padding_),
            .alignment = mean_of(3),
            .r_drop = sum_of(2 * OutputProjectionLoss::pass_rows * tokens) / 4};
  }
  return {.loss = sum_of(0),
          .nll = sum_of(tokens),
          .correct = sum_of(2 * tokens),
          .tokens = static_cast<double>(tokens) - static_cast<double>(padding_),
          .alignment = kinds_ > 3 ? sum_of(3 * tokens) : 0};
}

/// The sum of row `kind` of OutputProjectionLoss::run() over a sentence, or the mean of both passes of run_twice().
double FetchedLosses::sum_of_sentence(std::size_t kind, const PackedBatch& batch, std::size_t sentence) const {
  const std::size_t rows = losses_->size() / static_cast<std::size_t>(kinds_);
  const bool twice = kinds_ > 2 * OutputProjectionLoss::pass_rows;
  const float* const first = losses_->data() + kind * rows;
  const float* const second = first + OutputProjectionLoss::pass_rows * static_cast<std::int64_t>(rows);
  double sum = 0;
  for (std::int32_t i = batch.target_in.offsets[sentence]; i < batch.target_in.offsets[sentence + 1]; ++i) {
    const auto loss = static_cast<double>(first[i]);
    sum += twice ? (loss + static_cast<double>(second[i])) / 2 : loss;
  }
  return sum;
}

void FetchedLosses::add_to(CorpusSums& sums, const PackedBatch& batch) const {
  if (losses_ == nullptr) return;
  for (std::size_t sentence = 0; sentence < batch.corpora.size(); ++sentence) {
    sums.loss[batch.corpora[sentence]] += sum_of_sentence(0, batch, sentence);
    sums.tokens[batch.corpora[sentence]] += batch.target_in.length(sentence);
  }
}

void FetchedLosses::set_means(std::vector<double>& sentences, const PackedBatch& batch) const {
  if (losses_ == nullptr) return;
  const auto count = static_cast<std::size_t>(batch.target_in.sentences());
  const auto first = static_cast<std::size_t>(batch.first_sentence);
  for (std::size_t sentence = 0; sentence < count; ++sentence) {
    sentences[first + sentence] = sum_of_sentence(1, batch, sentence) / batch.target_in.length(sentence);
  }
}

OutputProjectionLoss::OutputProjectionLoss(const Parameter& projection, const Parameter* bias, float label_smoothing)
    : projection_(&projection), bias_(bias), label_smoothing_(label_smoothing) {}

const Parameter& OutputProjectionLoss::declare_bias(ParameterStore& store, std::int64_t vocabulary) {
  return store.declare(bias_name, Shape{vocabulary}, Initializer::zeros());
}

void OutputProjectionLoss::multiply(Context& context, ConstTensor hidden, Tensor logits) const {
  const ConstTensor bias = bias_ != nullptr ? ConstTensor(bias_->master) : ConstTensor();
  if (projection_->quantized) {
    return context.backend.run(
        QuantizedLinear{.x = hidden, .weight = projection_->quantized, .bias = bias, .y = logits});
  }
  context.backend.run(LinearForward{.x = hidden,
                                    .weight = projection_->compute,
                                    .bias = bias,
                                    .y = logits,
                                    .bias_copy = bias_ != nullptr ? bias_->compute : ConstTensor(),
                                    .packed = context.packed(projection_->compute, true)});
}

namespace {

/// The rows `ids` of a contiguous matrix, or elements of a vector.
Buffer rows_at(ConstTensor matrix, std::span<const std::int32_t> ids) {
  const std::size_t row_bytes = matrix.bytes() / static_cast<std::size_t>(matrix.shape[0]);
  Buffer rows = allocate_host(ids.size() * row_bytes);
  for (std::size_t i = 0; i < ids.size(); ++i) {
    const char* from = matrix.as<char>() + static_cast<std::size_t>(ids[i]) * row_bytes;
    std::memcpy(static_cast<char*>(rows.data()) + i * row_bytes, from, row_bytes);
  }
  return rows;
}

/// The outputs `ids` of a quantized weight, side by side as if it had no others.
QuantizedCopy outputs_at(const QuantizedWeight& weight, std::span<const std::int32_t> ids) {
  constexpr std::int64_t step_bytes = QuantizedWeight::panel_outputs * QuantizedWeight::step_inputs;
  QuantizedCopy copy{.weight = {.shape = {std::ssize(ids), weight.shape[1]}, .elements = {}, .scales = {}, .sums = {}}};
  QuantizedWeight& made = copy.weight;
  const Shape per_output{made.panels() * QuantizedWeight::panel_outputs};
  copy.elements = allocate_host(static_cast<std::size_t>(made.elements_shape().elements()));
  copy.scales = allocate_host(static_cast<std::size_t>(per_output.elements()) * sizeof(float));
  copy.sums = allocate_host(static_cast<std::size_t>(per_output.elements()) * sizeof(std::int32_t));
  for (std::size_t i = 0; i < ids.size(); ++i) {
    const auto* from = weight.elements.as<char>() + weight.place(ids[i], 0);
    auto* to = static_cast<char*>(copy.elements.data()) + made.place(static_cast<std::int64_t>(i), 0);
    for (std::int64_t step = 0; step < weight.steps(); ++step, from += step_bytes, to += step_bytes) {
      std::memcpy(to, from, QuantizedWeight::step_inputs);
    }
    static_cast<float*>(copy.scales.data())[i] = weight.scales.as<float>()[ids[i]];
    static_cast<std::int32_t*>(copy.sums.data())[i] = weight.sums.as<std::int32_t>()[ids[i]];
  }
  made.elements = copy.elements.view(made.elements_shape(), DType::int8);
  made.scales = copy.scales.view(per_output, DType::f32);
  made.sums = copy.sums.view(per_output, DType::i32);
  return copy;
}

}  // namespace

OutputRows OutputProjectionLoss::rows_of(Backend& backend, std::span<const std::int32_t> ids) const {
  if (!backend.host_memory()) fail("output rows: found {}, expected a processor", backend.description());
  OutputRows rows;
  rows.shape = {std::ssize(ids), projection_->shape[1]};
  if (bias_ != nullptr) rows.bias = rows_at(bias_->master, ids);
  if (projection_->quantized) {
    rows.quantized = outputs_at(projection_->quantized, ids);
  } else {
    rows.weight = rows_at(projection_->compute, ids);
    rows.packed = backend.pack(rows.weight.view(rows.shape, projection_->compute.dtype));
  }
  return rows;
}

Tensor OutputProjectionLoss::logits(Context& context, ConstTensor hidden, const OutputRows* only) const {
  context.will_read(projection_);
  context.will_read(bias_);
  context.will_multiply(*projection_, hidden);
  const std::int64_t ids = only != nullptr ? only->shape[0] : projection_->shape[0];
  Tensor logits = context.scratch.make(Shape{hidden.rows(), ids}, context.dtype);
  if (only == nullptr) {
    multiply(context, hidden, logits);
    return logits;
  }
  const ConstTensor bias = bias_ != nullptr ? ConstTensor(only->bias.view(Shape{ids}, DType::f32)) : ConstTensor();
  if (projection_->quantized) {
    context.backend.run(QuantizedLinear{.x = hidden, .weight = only->quantized.weight, .bias = bias, .y = logits});
  } else {
    context.backend.run(LinearForward{.x = hidden,
                                      .weight = only->weight.view(only->shape, projection_->compute.dtype),
                                      .bias = bias,
                                      .y = logits,
                                      .packed = only->packed.get()});
  }
  return logits;
}

Tensor OutputProjectionLoss::run(Context& context, ConstTensor hidden, ConstTensor targets, float gradient_scale,
                                 Tensor dhidden, Tensor predicted, bool guided) const {
  const WorkRange range(context.backend, "output_loss");
  context.will_read(projection_);
  context.will_read(bias_);
  const std::int64_t tokens = hidden.rows();
  const Tensor all_losses = context.saved.make(Shape{guided ? 4 : 3, tokens}, DType::f32);
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
    multiply(context, h, chunk);
    CrossEntropy loss = loss_op(all_losses, row, chunk, targets, gradient_scale, dhidden ? chunk : Tensor());
    if (predicted) loss.predicted = predicted.row_slice(row, rows);
    context.backend.run(loss);
    if (!dhidden) continue;
    context.enter(Phase::backward);
    backward(context, chunk, h, dhidden.row_slice(row, rows), context.accumulate || row > 0);
  }
  return all_losses;
}

/// The op for the rows of `logits`, which begin with token `row`. `losses`: [at least 3, tokens].
CrossEntropy OutputProjectionLoss::loss_op(const Tensor& losses, std::int64_t row, ConstTensor logits,
                                           ConstTensor targets, float gradient_scale, Tensor dlogits) const {
  const std::int64_t tokens = losses.shape[1], rows = logits.shape[0];
  const Tensor flat(losses.data, Shape{losses.shape.elements()}, DType::f32);
  return {.logits = logits,
          .targets = targets.row_slice(row, rows),
          .smoothing = label_smoothing_,
          .gradient_scale = gradient_scale,
          .dlogits = dlogits,
          .loss = flat.row_slice(row, rows),
          .nll = flat.row_slice(tokens + row, rows),
          .correct = flat.row_slice(2 * tokens + row, rows)};
}

void OutputProjectionLoss::backward(Context& context, ConstTensor dlogits, ConstTensor hidden, Tensor dhidden,
                                    bool accumulate) const {
  context.backend.run(LinearBackwardWeight{.dy = dlogits,
                                           .x = hidden,
                                           .dweight = projection_->gradient,
                                           .dbias = bias_ != nullptr ? bias_->gradient : Tensor(),
                                           .accumulate = accumulate});
  context.backend.run(LinearBackwardData{.dy = dlogits, .weight = projection_->compute, .dx = dhidden});
}

/// Four chunks of logits and gradients are in memory at a time, which together have the bytes that run() has for one.
Tensor OutputProjectionLoss::run_twice(Context& context, ConstTensor first, ConstTensor second, ConstTensor targets,
                                       float gradient_scale, float r_drop, Tensor dfirst, Tensor dsecond) const {
  const WorkRange range(context.backend, "output_loss");
  context.will_read(projection_);
  context.will_read(bias_);
  const std::int64_t tokens = first.rows(), vocabulary = projection_->shape[0];
  const Tensor losses = context.saved.make(Shape{2 * pass_rows + 1, tokens}, DType::f32);
  const Tensor of_second = losses.row_slice(pass_rows, pass_rows);
  const Tensor divergence(losses.row_slice(2 * pass_rows, 1).data, Shape{tokens}, DType::f32);
  const std::int64_t row_bytes = 4 * logits_row_bytes(vocabulary, context.dtype);
  const LossChunks chunks = context.backend.loss_chunks();
  const std::int64_t chunk_rows = chunks.chunk_rows(tokens, row_bytes);
  const Arena::Scope scope(context.scratch);
  const auto make_chunk = [&] {  // sized as in run()
    const Shape shape{std::min(tokens, chunks.max_rows(row_bytes)), padded_columns(vocabulary)};
    return context.scratch.make(shape, context.dtype).column_slice(0, vocabulary);
  };
  const Tensor x = make_chunk(), y = make_chunk(), dx = make_chunk(), dy = make_chunk();
  for (std::int64_t row = 0; row < tokens; row += chunk_rows) {
    const std::int64_t rows = std::min(chunk_rows, tokens - row);
    const auto chunk = [rows](const Tensor& whole) { return whole.row_slice(0, rows); };
    const ConstTensor of_x = first.row_slice(row, rows), of_y = second.row_slice(row, rows);
    context.enter(Phase::forward);
    multiply(context, of_x, chunk(x));
    multiply(context, of_y, chunk(y));
    context.backend.run(loss_op(losses, row, chunk(x), targets, gradient_scale / 2, chunk(dx)));
    context.backend.run(loss_op(of_second, row, chunk(y), targets, gradient_scale / 2, chunk(dy)));
    context.backend.run(SymmetricDivergence{.first = chunk(x),
                                            .second = chunk(y),
                                            .targets = targets.row_slice(row, rows),
                                            .gradient_scale = gradient_scale * r_drop / 4,
                                            .dfirst = chunk(dx),
                                            .dsecond = chunk(dy),
                                            .loss = divergence.row_slice(row, rows)});
    context.enter(Phase::backward);
    backward(context, chunk(dx), of_x, dfirst.row_slice(row, rows), context.accumulate || row > 0);
    backward(context, chunk(dy), of_y, dsecond.row_slice(row, rows), true);
  }
  return losses;
}

}  // namespace babelring
