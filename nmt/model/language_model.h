#pragma once

#include <optional>
#include <vector>

#include "nmt/layers/embedding.h"
#include "nmt/layers/transformer_layers.h"
#include "nmt/model/model.h"

namespace babelring {

/// Decoder-only Transformer: predicts each token of a sequence from the tokens before it. It has config.decoder_layers
/// causal layers and no encoder; `tied_embeddings` all and decoder both mean one table for input and output. Of a batch
/// it reads the target side only: it predicts target_out from target_in.
/// Sources: Radford et al. 2018; for pre-norm Wang et al. 2019, with a final norm.
class LanguageModel : public Model {
 public:
  /// Declares the parameters and allocates zeroed arrays from `memory`. `compute` (f32 or bf16) is the data type of
  /// matmuls.
  LanguageModel(const ModelConfig& config, std::int64_t vocabulary, float label_smoothing,
                const ParameterMemory& memory, DType compute);

  const ModelConfig& config() const { return config_; }
  const char* kind() const override { return "a language model"; }
  const Parameter* shared_table() const override { return table_ == output_table_ ? table_ : nullptr; }
  ConstTensor add_gradients(Context& context, const DeviceBatch& batch, float gradient_scale) const override;
  LossSums evaluate(Context& context, const DeviceBatch& batch, Tensor predicted = {}) const override;

  /// Logits [tokens, vocabulary] of the token after each token, in context.scratch. The reference for step().
  Tensor logits(Context& context, const Sequences& sequences) const;
  /// One incremental decoding step. `tokens`: the newest id and position of each sequence, [rows]. `layers`: one
  /// StepInput per layer. Returns logits [rows, vocabulary] in context.scratch.
  Tensor step(Context& context, const Sequences& tokens, const std::vector<SelfAttention::StepInput>& layers) const;

 private:
  struct Saved {
    Embedding::Saved embedding;
    std::vector<EncoderLayer::Saved> layers;
    Norm::Saved norm;
  };
  struct Pass {
    Saved saved;
    Tensor hidden, d;  // d: the gradient of `hidden`
  };
  Tensor forward(Context& context, const Sequences& sequences, Saved& saved) const;
  void backward(Context& context, Tensor d, const Saved& saved) const;

  ModelConfig config_;
  const Parameter* table_;
  const Parameter* output_table_;
  const Parameter* output_bias_ = nullptr;  // null without ModelConfig::output_bias
  std::optional<Embedding> embedding_;
  std::vector<EncoderLayer> layers_;
  std::optional<Norm> norm_;  // pre-norm only
  std::optional<OutputProjectionLoss> loss_;
};

}  // namespace babelring
