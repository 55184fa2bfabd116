#include "nmt/model/language_model.h"

#include <string>

#include "nmt/ops/elementwise.h"

namespace babelring {

namespace {

// Dropout sites: one for the embedding, then a range for the layers.
constexpr std::uint64_t embedding_site = 1;
constexpr std::uint64_t first_layer_site = 1000;

constexpr std::uint64_t layer_site(std::size_t layer) {
  return first_layer_site + EncoderLayer::sites * layer;
}

}  // namespace

LanguageModel::LanguageModel(const ModelConfig& config, std::int64_t vocabulary, float label_smoothing,
                             const ParameterMemory& memory, DType compute)
    : Model(vocabulary, compute), config_(config) {
  config.check();
  ParameterStore& store = parameters();
  const auto table = [&](const char* name) { return &Embedding::declare_table(store, name, vocabulary, config.width); };
  table_ = table("embedding");
  embedding_.emplace(*table_, config.source_embedding(), embedding_site);
  for (std::size_t i = 0; i < static_cast<std::size_t>(config.decoder_layers); ++i) {
    LayerOptions options = config.layer_options(i);
    options.causal = true;
    layers_.emplace_back(store, "decoder." + std::to_string(i), options, layer_site(i));
  }
  const LayerOptions options = config.layer_options(0);
  if (options.norm == NormPosition::pre) norm_.emplace(store, "decoder.norm", config.width, options.norm_options);
  output_table_ = config.tied_embeddings == TiedEmbeddings::none ? table("output") : table_;
  if (config.output_bias) output_bias_ = &OutputProjectionLoss::declare_bias(store, vocabulary);
  loss_.emplace(*output_table_, output_bias_, label_smoothing);
  store.allocate(memory, compute);
}

Tensor LanguageModel::forward(Context& context, const Sequences& sequences, Saved& saved) const {
  Tensor x = embedding_->forward(context, sequences, saved.embedding);
  saved.layers.resize(layers_.size());
  for (std::size_t i = 0; i < layers_.size(); ++i) {
    if (!context.drops_layer(layer_site(i))) x = layers_[i].forward(context, x, sequences, saved.layers[i]);
  }
  return norm_ ? norm_->forward(context, x, saved.norm) : x;
}

void LanguageModel::backward(Context& context, Tensor d, const Saved& saved) const {
  if (norm_) norm_->backward(context, d, saved.norm, d, false);
  for (std::size_t i = layers_.size(); i-- > 0;) {
    if (context.drops_layer(layer_site(i))) {
      skip_layer(context, "decoder." + std::to_string(i));
    } else {
      layers_[i].backward(context, d, saved.layers[i]);
    }
  }
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
  std::vector<Pass> passes;
  for (int pass = 0; pass < (r_drop() > 0 ? 2 : 1); ++pass) {
    Context own = pass == 0 ? context : second_pass(context);
    const WorkRange range(context.backend, "forward");
    Pass& made = passes.emplace_back();
    made.hidden = forward(own, batch.target, made.saved);
    made.d = context.saved.make(made.hidden.shape, context.dtype);
  }
  const Pass& first = passes.front();
  const Pass& last = passes.back();
  Tensor losses;
  if (r_drop() > 0) {
    constexpr std::int64_t rows = OutputProjectionLoss::pass_rows;
    losses = loss_->run_twice(context, first.hidden, last.hidden, batch.target_out, gradient_scale, r_drop(), first.d,
                              last.d);
    for (const std::int64_t end : {rows, 2 * rows}) {  // nothing is aligned
      context.backend.run(Fill{.y = losses.row_slice(end - 1, 1), .value = 0});
    }
  } else {
    losses = loss_->run(context, first.hidden, batch.target_out, gradient_scale, first.d);
  }
  context.enter(Phase::backward);
  const WorkRange range(context.backend, "backward");
  context.ready(output_bias_);
  const EmbeddingRows* rows = context.embedding_rows;
  if (!shared || rows != nullptr) context.ready(output_table_);
  Context added = context;
  for (std::size_t pass = passes.size(); pass-- > 0;) {
    Pass& made = passes[pass];
    if (rows != nullptr) {
      made.saved.embedding.ids = rows->target;
      made.saved.embedding.gradient = rows->gradient;
    }
    Context own = pass == 0 ? added : second_pass(context);
    backward(own, made.d, made.saved);
    added.accumulate = true;
  }
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
  for (std::size_t i = 0; i < layers_.size(); ++i) x = layers_[i].step(context, x, tokens.positions, layers[i]);
  if (norm_) x = norm_->forward(context, x, unused.norm);
  return loss_->logits(context, x);
}

}  // namespace babelring
