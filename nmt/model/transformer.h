#pragma once

#include <optional>
#include <vector>

#include "nmt/layers/embedding.h"
#include "nmt/layers/linear.h"
#include "nmt/layers/output_projection_loss.h"
#include "nmt/layers/transformer_layers.h"
#include "nmt/model/model.h"

namespace babelring {

/// Encoder-decoder Transformer.
/// Sources: Vaswani et al. 2017; for pre-norm Wang et al. 2019, with a final norm after each stack.
class Transformer : public Model {
 public:
  /// Declares the parameters and allocates zeroed arrays from `memory`. `compute` (f32 or bf16) is the data type of
  /// matmuls.
  Transformer(const ModelConfig& config, std::int64_t vocabulary, float label_smoothing, const ParameterMemory& memory,
              DType compute);
  /// Allocates weights and gradients in the backend's memory.
  Transformer(const ModelConfig& config, std::int64_t vocabulary, float label_smoothing, Backend& backend,
              DType compute);

  const ModelConfig& config() const { return config_; }
  const char* kind() const override { return "a Transformer"; }
  const Parameter* shared_table() const override { return source_table_ == output_table_ ? output_table_ : nullptr; }
  ConstTensor add_gradients(Context& context, const DeviceBatch& batch, float gradient_scale) const override;
  LossSums evaluate(Context& context, const DeviceBatch& batch, Tensor predicted = {}) const override;

  /// Forward and loss of a batch with target tokens: the result of OutputProjectionLoss::run(). `predicted` as for
  /// evaluate().
  ConstTensor token_losses(Context& context, const DeviceBatch& batch, Tensor predicted = {}) const;

  /// The encoder output [source tokens, width] in context.saved.
  Tensor encode(Context& context, const Sequences& source) const;
  /// One incremental decoding step. `tokens`: the newest id and position of each hypothesis, [rows]. `layers`: one
  /// StepInput per decoder layer. Returns logits [rows, vocabulary] in context.scratch, or those of `only` alone.
  Tensor decode_step(Context& context, const Sequences& tokens, const std::vector<DecoderLayer::StepInput>& layers,
                     const OutputRows* only = nullptr) const;
  /// See OutputProjectionLoss::rows_of().
  OutputRows output_rows(Backend& backend, std::span<const std::int32_t> ids) const {
    return loss_->rows_of(backend, ids);
  }
  /// Teacher-forced logits [target tokens, vocabulary] in context.scratch. The reference for incremental decoding.
  Tensor teacher_forced_logits(Context& context, const Sequences& source, const Sequences& target) const;
  const std::vector<DecoderLayer>& decoder() const { return decoder_; }

 private:
  struct EncoderSaved {
    Embedding::Saved embedding;
    std::vector<EncoderLayer::Saved> layers;
    Norm::Saved norm;
  };
  struct DecoderSaved {
    Embedding::Saved embedding;
    FusedLinear::Saved key_values;  // null tensors if each layer projects the memory itself
    std::vector<DecoderLayer::Saved> layers;
    Norm::Saved norm;
  };
  /// Forward pass with what its backward pass needs.
  struct Pass {
    EncoderSaved encoder;
    DecoderSaved decoder;
    Tensor memory, hidden;
    Tensor d;  // gradient of `hidden`, then of what the decoder's layers read
  };
  Pass forward(Context& context, const DeviceBatch& batch) const;
  void backward(Context& context, Pass& pass) const;
  ConstTensor add_gradients_twice(Context& context, const DeviceBatch& batch, float gradient_scale) const;
  Tensor encode(Context& context, const Sequences& source, EncoderSaved& saved) const;
  Tensor decode(Context& context, const Sequences& target, ConstTensor memory, const Sequences& source,
                DecoderSaved& saved) const;
  void guide(Context& context, const DeviceBatch& batch, float gradient_scale, Tensor loss, DecoderSaved& saved) const;
  void backward_encoder(Context& context, Tensor d, const EncoderSaved& saved) const;
  Tensor part(Tensor joined, std::size_t layer) const;
  /// dmemory is overwritten.
  void backward_decoder(Context& context, Tensor d, Tensor dmemory, const DecoderSaved& saved) const;
  void clear_embedding_gradients(Context& context) const;
  void projection_ready(Context& context) const;
  void embeddings_ready(Context& context) const;

  ModelConfig config_;
  const Parameter* target_table_;
  const Parameter* source_table_;
  const Parameter* output_table_;
  const Parameter* output_bias_ = nullptr;  // null without ModelConfig::output_bias
  std::optional<Embedding> source_embedding_, target_embedding_;
  std::vector<EncoderLayer> encoder_;
  std::optional<Norm> encoder_norm_;  // pre-norm only
  std::vector<DecoderLayer> decoder_;
  std::optional<FusedLinear> key_values_;  // key and value projections of all decoder layers
  std::optional<Norm> decoder_norm_;
  std::optional<OutputProjectionLoss> loss_;
};

/// The model as a Transformer, which translates. Throws UsageFailure that names the other kind of model.
const Transformer& require_transformer(const Model& model);

}  // namespace babelring
