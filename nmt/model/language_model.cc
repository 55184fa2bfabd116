#include "nmt/model/language_model.h"

#include <string>

#include "nmt/ops/elementwise.h"

namespace babelring {

namespace {

// Dropout sites: one for the embedding, then a range for the layers.
constexpr std::uint64_t embedding_site = 1;
constexpr std::uint64_t layer_site = 1000;

}  // namespace

LanguageModel::LanguageModel(const ModelConfig& config, std::int64_t vocabulary, float label_smoothing,
                             const ParameterMemory& memory, DType compute)
    : Model(vocabulary, compute), config_(config) {
  config.check();
  ParameterStore& store = parameters();
  const auto table = [&](const char* name) { return &Embedding::declare_table(store, name, vocabulary, config.width); };
  LayerOptions options = config.layer_options();
  options.causal = true;
  table_ = table("embedding");
  embedding_.emplace(*table_, config.source_embedding(), embedding_site);
  for (int i = 0; i < config.decoder_layers; ++i) {
    layers_.emplace_back(store, "decoder." + std::to_string(i), options,
                         layer_site + EncoderLayer::sites * static_cast<std::uint64_t>(i));
  }
  if (options.norm == NormPosition::pre) norm_.emplace(store, "decoder.norm", config.width, options.norm_epsilon);
  output_table_ = config.tied_embeddings == TiedEmbeddings::none ? table("output") : table_;
  if (config.output_bias) output_bias_ = &OutputProjectionLoss::declare_bias(store, vocabulary);
  loss_.emplace(*output_table_, output_bias_, label_smoothing);
  store.allocate(memory, compute);
}

Tensor LanguageModel::forward(Context& context, const Sequences& sequences, Saved& saved) const {
  Tensor x = embedding_->forward(context, sequences, saved.embedding);
  saved.layers.resize(layers_.size());
  for (std::size_t i = 0; i < layers_.size(); ++i) x = layers_[i].forward(context, x, sequences, saved.layers[i]);
  return norm_ ? norm_->forward(context, x, saved.norm) : x;
}

void LanguageModel::backward(Context& context, Tensor d, const Saved& saved) const {
  if (norm_) norm_->backward(context, d, saved.norm, d, false);
  for (std::size_t i = layers_.size(); i-- > 0;) layers_[i].backward(context, d, saved.layers[i]);
  embedding_->backward(context, d, saved.embedding);
}

ConstTensor LanguageModel::add_gradients(Context& context, const DeviceBatch& batch, float gradient_scale) const {
  if (batch.target.tokens() == 0) {
    add_no_gradients(context);
    return {};
  }
  const bool shared = table_ == output_table_;
  // Embedding backward always adds to its table's gradient; the output projection overwrites its own.
  if (!context.accumulate && !shared) context.backend.run(Fill{.y = table_->gradient, .value = 0});
  Saved saved;
  std::optional<WorkRange> range(std::in_place, context.backend, "forward");
  const Tensor hidden = forward(context, batch.target, saved);
  range.reset();
  const Tensor d = context.saved.make(hidden.shape, context.dtype);
  const ConstTensor losses = loss_->run(context, hidden, batch.target_out, gradient_scale, d);
  context.enter(Phase::backward);
  range.emplace(context.backend, "backward");
  context.ready(output_bias_);
  const EmbeddingRows* rows = context.embedding_rows;
  if (!shared || rows != nullptr) context.ready(output_table_);
  if (rows != nullptr) {
    saved.embedding.ids = rows->target;
    saved.embedding.gradient = rows->gradient;
  }
  backward(context, d, saved);
  if (rows == nullptr) context.ready(table_);
  return losses;
}

LossSums LanguageModel::evaluate(Context& context, const DeviceBatch& batch, Tensor predicted) const {
  if (batch.target.tokens() == 0) return {};
  Saved saved;
  const Tensor hidden = forward(context, batch.target, saved);
  const FetchedLosses losses(context.backend, loss_->run(context, hidden, batch.target_out, 0, Tensor(), predicted));
  context.backend.synchronize();
  return losses.sums();
}

Tensor LanguageModel::logits(Context& context, const Sequences& sequences) const {
  Saved unused;
  return loss_->logits(context, forward(context, sequences, unused));
}

Tensor LanguageModel::step(Context& context, const Sequences& tokens,
                           const std::vector<SelfAttention::StepInput>& layers) const {
  Saved unused;
  Tensor x = embedding_->forward(context, tokens, unused.embedding);
  for (std::size_t i = 0; i < layers_.size(); ++i) x = layers_[i].step(context, x, layers[i]);
  if (norm_) x = norm_->forward(context, x, unused.norm);
  return loss_->logits(context, x);
}

}  // namespace babelring
