#include "nmt/model/transformer.h"

#include <fmt/format.h>

#include <string>

#include "base/failure.h"
#include "nmt/ops/elementwise.h"

namespace babelring {

namespace {

// Dropout sites: one per embedding, then a range for the encoder and one for the decoder layers.
constexpr std::uint64_t source_embedding_site = 1;
constexpr std::uint64_t target_embedding_site = 2;
constexpr std::uint64_t encoder_site = 1000;
constexpr std::uint64_t decoder_site = 2000;

constexpr std::uint64_t encoder_layer_site(std::size_t layer) {
  return encoder_site + EncoderLayer::sites * layer;
}

constexpr std::uint64_t decoder_layer_site(std::size_t layer) {
  return decoder_site + DecoderLayer::sites * layer;
}

std::string layer_name(const char* stack, std::size_t layer) {
  return stack + ("." + std::to_string(layer));
}

}  // namespace

Transformer::Transformer(const ModelConfig& config, std::int64_t vocabulary, float label_smoothing, Backend& backend,
                         DType compute)
    : Transformer(config, vocabulary, label_smoothing, parameter_memory_of(backend), compute) {}

Transformer::Transformer(const ModelConfig& config, std::int64_t vocabulary, float label_smoothing,
                         const ParameterMemory& memory, DType compute)
    : Model(vocabulary, compute), config_(config) {
  config.check();
  ParameterStore& store = parameters();
  const auto table = [&](const char* name) { return &Embedding::declare_table(store, name, vocabulary, config.width); };
  const LayerOptions options = config.layer_options(0);

  target_table_ = table(config.tied_embeddings == TiedEmbeddings::all ? "embedding" : "decoder.embedding");
  source_table_ = config.tied_embeddings == TiedEmbeddings::all ? target_table_ : table("encoder.embedding");
  source_embedding_.emplace(*source_table_, config.source_embedding(), source_embedding_site);
  for (std::size_t i = 0; i < static_cast<std::size_t>(config.encoder_layers); ++i) {
    encoder_.emplace_back(store, layer_name("encoder", i), config.layer_options(i), encoder_layer_site(i));
  }
  if (options.norm == NormPosition::pre)
    encoder_norm_.emplace(store, "encoder.norm", config.width, options.norm_options);

  target_embedding_.emplace(*target_table_, config.target_embedding(), target_embedding_site);
  for (std::size_t i = 0; i < static_cast<std::size_t>(config.decoder_layers); ++i) {
    decoder_.emplace_back(store, layer_name("decoder", i), config.layer_options(i), decoder_layer_site(i));
  }
  std::vector<const Linear*> key_values;
  for (const DecoderLayer& layer : decoder_) key_values.push_back(&layer.key_value());
  key_values_.emplace(std::move(key_values));
  if (options.norm == NormPosition::pre)
    decoder_norm_.emplace(store, "decoder.norm", config.width, options.norm_options);
  output_table_ = config.tied_embeddings == TiedEmbeddings::none ? table("output") : target_table_;
  if (config.output_bias) output_bias_ = &OutputProjectionLoss::declare_bias(store, vocabulary);
  loss_.emplace(*output_table_, output_bias_, label_smoothing);

  store.allocate(memory, compute);
}

const Transformer& require_transformer(const Model& model) {
  if (const auto* transformer = dynamic_cast<const Transformer*>(&model)) return *transformer;
  throw UsageFailure(fmt::format("translating needs a Transformer, found {}", model.kind()));
}

Tensor Transformer::encode(Context& context, const Sequences& source, EncoderSaved& saved) const {
  Tensor x = source_embedding_->forward(context, source, saved.embedding);
  saved.layers.resize(encoder_.size());
  for (std::size_t i = 0; i < encoder_.size(); ++i) {
    if (!context.drops_layer(encoder_layer_site(i))) x = encoder_[i].forward(context, x, source, saved.layers[i]);
  }
  return encoder_norm_ ? encoder_norm_->forward(context, x, saved.norm) : x;
}

Tensor Transformer::encode(Context& context, const Sequences& source) const {
  EncoderSaved unused;
  return encode(context, source, unused);
}

/// The columns of decoder layer i in the joined keys and values or their gradient; null if `joined` is null.
Tensor Transformer::part(Tensor joined, std::size_t layer) const {
  const std::int64_t columns = key_values_->out();
  return joined ? joined.column_slice(static_cast<std::int64_t>(layer) * columns, columns) : Tensor();
}

Tensor Transformer::decode(Context& context, const Sequences& target, ConstTensor memory, const Sequences& source,
                           DecoderSaved& saved) const {
  Tensor x = target_embedding_->forward(context, target, saved.embedding);
  saved.layers.resize(decoder_.size());
  if (context.backend.prefers_fused_matmuls()) key_values_->forward(context, memory, saved.key_values);
  for (std::size_t i = 0; i < decoder_.size(); ++i) {
    if (context.drops_layer(decoder_layer_site(i))) continue;
    x = decoder_[i].forward(context, x, target, memory, source, saved.layers[i], part(saved.key_values.y, i));
  }
  return decoder_norm_ ? decoder_norm_->forward(context, x, saved.norm) : x;
}

ConstTensor Transformer::token_losses(Context& context, const DeviceBatch& batch, Tensor predicted) const {
  EncoderSaved encoder;
  DecoderSaved decoder;
  const Tensor memory = encode(context, batch.source, encoder);
  const Tensor hidden = decode(context, batch.target, memory, batch.source, decoder);
  return loss_->run(context, hidden, batch.target_out, 0, Tensor(), predicted);
}

LossSums Transformer::evaluate(Context& context, const DeviceBatch& batch, Tensor predicted) const {
  if (batch.target.tokens() == 0) return {};
  const FetchedLosses losses(context.backend, token_losses(context, batch, predicted));
  context.backend.synchronize();
  return losses.sums();
}

ConstTensor Transformer::add_gradients(Context& context, const DeviceBatch& batch, float gradient_scale) const {
  if (batch.target.tokens() == 0) {
    add_no_gradients(context);
    return {};
  }
  if (!context.accumulate) clear_embedding_gradients(context);
  if (r_drop() > 0) return add_gradients_twice(context, batch, gradient_scale);
  Pass pass = forward(context, batch);
  const bool guided = guided_alignment() > 0;
  const Tensor losses = loss_->run(context, pass.hidden, batch.target_out, gradient_scale, pass.d, {}, guided);
  context.enter(Phase::backward);
  if (guided) guide(context, batch, gradient_scale, losses.row_slice(3, 1), pass.decoder);
  const WorkRange range(context.backend, "backward");
  projection_ready(context);
  backward(context, pass);
  embeddings_ready(context);
  return losses;
}

ConstTensor Transformer::add_gradients_twice(Context& context, const DeviceBatch& batch, float gradient_scale) const {
  Context other = second_pass(context);
  Pass first = forward(context, batch), second = forward(other, batch);
  const Tensor losses = loss_->run_twice(context, first.hidden, second.hidden, batch.target_out, gradient_scale,
                                         r_drop(), first.d, second.d);
  context.enter(Phase::backward);
  constexpr std::int64_t guided_row = OutputProjectionLoss::pass_rows - 1;
  for (const auto& [pass, row] :
       {std::pair(&first, guided_row), {&second, OutputProjectionLoss::pass_rows + guided_row}}) {
    const Tensor loss = losses.row_slice(row, 1);
    if (guided_alignment() > 0) {
      guide(context, batch, gradient_scale / 2, loss, pass->decoder);
    } else {
      context.backend.run(Fill{.y = loss, .value = 0});
    }
  }
  const WorkRange range(context.backend, "backward");
  projection_ready(context);
  backward(other, second);
  Context added = context;
  added.accumulate = true;
  backward(added, first);
  embeddings_ready(context);
  return losses;
}

Transformer::Pass Transformer::forward(Context& context, const DeviceBatch& batch) const {
  const WorkRange range(context.backend, "forward");
  Pass pass;
  pass.memory = encode(context, batch.source, pass.encoder);
  pass.hidden = decode(context, batch.target, pass.memory, batch.source, pass.decoder);
  pass.d = context.saved.make(pass.hidden.shape, context.dtype);
  return pass;
}

void Transformer::backward(Context& context, Pass& pass) const {
  if (const EmbeddingRows* rows = context.embedding_rows) {
    pass.encoder.embedding.ids = rows->source;
    pass.decoder.embedding.ids = rows->target;
    pass.encoder.embedding.gradient = pass.decoder.embedding.gradient = rows->gradient;
  }
  const Tensor dmemory = context.saved.make(pass.memory.shape, context.dtype);
  backward_decoder(context, pass.d, dmemory, pass.decoder);
  backward_encoder(context, dmemory, pass.encoder);
}

/// Lets backward add the loss of guided attention, and write it to `loss` [1, target tokens].
void Transformer::guide(Context& context, const DeviceBatch& batch, float gradient_scale, Tensor loss,
                        DecoderSaved& saved) const {
  if (!batch.link_offsets) return context.backend.run(Fill{.y = loss, .value = 0});
  const auto layer = static_cast<std::size_t>(alignment_layer(config_.decoder_layers));
  saved.layers[layer].cross.guide = {.link_offsets = batch.link_offsets,
                                     .links = batch.links,
                                     .head = 0,
                                     .gradient_scale = guided_alignment() * gradient_scale,
                                     .loss = Tensor(loss.data, Shape{batch.target.tokens()}, DType::f32)};
}

void Transformer::backward_decoder(Context& context, Tensor d, Tensor dmemory, const DecoderSaved& saved) const {
  const Arena::Scope scope(context.scratch);
  const Tensor kv = saved.key_values.y;
  const Tensor dkv = kv ? context.scratch.make(kv.shape, kv.dtype) : Tensor();
  if (!kv) context.backend.run(Fill{.y = dmemory, .value = 0});
  if (kv && context.layer_drop > 0) context.backend.run(Fill{.y = dkv, .value = 0});  // parts of layers left out
  if (decoder_norm_) decoder_norm_->backward(context, d, saved.norm, d, false);
  for (std::size_t i = decoder_.size(); i-- > 0;) {
    if (context.drops_layer(decoder_layer_site(i))) {
      skip_layer(context, layer_name("decoder", i));
    } else {
      decoder_[i].backward(context, d, saved.layers[i], dmemory, part(dkv, i));
    }
  }
  target_embedding_->backward(context, d, saved.embedding);
  if (kv) key_values_->backward_data(context, dkv, saved.key_values, dmemory);
}

void Transformer::backward_encoder(Context& context, Tensor d, const EncoderSaved& saved) const {
  if (encoder_norm_) encoder_norm_->backward(context, d, saved.norm, d, false);
  for (std::size_t i = encoder_.size(); i-- > 0;) {
    if (context.drops_layer(encoder_layer_site(i))) {
      skip_layer(context, layer_name("encoder", i));
    } else {
      encoder_[i].backward(context, d, saved.layers[i]);
    }
  }
  source_embedding_->backward(context, d, saved.embedding);
}

/// Embedding backward always adds to its table's gradient. Only the output projection overwrites at its first chunk, so
/// other tables must be cleared.
void Transformer::clear_embedding_gradients(Context& context) const {
  for (const Parameter* table : {source_table_, target_table_}) {
    if (table != output_table_) context.backend.run(Fill{.y = table->gradient, .value = 0});
  }
}

/// After the loss: reports the output bias, and the output table if no embedding gradient is added to it later.
void Transformer::projection_ready(Context& context) const {
  context.ready(output_bias_);
  if (config_.tied_embeddings == TiedEmbeddings::none || context.embedding_rows != nullptr)
    context.ready(output_table_);
}

/// After backward: reports the embedding tables.
void Transformer::embeddings_ready(Context& context) const {
  if (context.embedding_rows != nullptr) return;
  if (source_table_ != target_table_) context.ready(source_table_);
  context.ready(target_table_);
}

Tensor Transformer::decode_step(Context& context, const Sequences& tokens,
                                const std::vector<DecoderLayer::StepInput>& layers, const OutputRows* only) const {
  Embedding::Saved unused_embedding;
  Norm::Saved unused_norm;
  Tensor x = target_embedding_->forward(context, tokens, unused_embedding);
  for (std::size_t i = 0; i < decoder_.size(); ++i) x = decoder_[i].step(context, x, tokens.positions, layers[i]);
  if (decoder_norm_) x = decoder_norm_->forward(context, x, unused_norm);
  return loss_->logits(context, x, only);
}

Tensor Transformer::teacher_forced_logits(Context& context, const Sequences& source, const Sequences& target) const {
  EncoderSaved encoder;
  DecoderSaved decoder;
  const Tensor memory = encode(context, source, encoder);
  return loss_->logits(context, decode(context, target, memory, source, decoder));
}

}  // namespace babelring
