#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "nmt/layers/decoder_layer.h"
#include "nmt/layers/embedding.h"
#include "nmt/layers/encoder_layer.h"
#include "nmt/layers/fused_linear.h"
#include "nmt/layers/output_projection_loss.h"
#include "nmt/model/config.h"
#include "nmt/model/device_batch.h"

namespace babelring {

/// Encoder-decoder Transformer with its parameters. Forward and backward are explicit; there is no autograd.
/// Sources: Vaswani et al. 2017; for pre-norm Wang et al. 2019, with a final norm after each stack.
class Transformer {
 public:
  /// Declares the parameters and allocates zeroed arrays from `memory`. `compute` (f32 or bf16) is the data type of
  /// matmuls.
  Transformer(const ModelConfig& config, std::int64_t vocabulary, float label_smoothing, const ParameterMemory& memory,
              DType compute);
  /// Allocates weights and gradients in the backend's memory.
  Transformer(const ModelConfig& config, std::int64_t vocabulary, float label_smoothing, Backend& backend,
              DType compute);

  ParameterStore& parameters() { return store_; }
  const ParameterStore& parameters() const { return store_; }
  const ModelConfig& config() const { return config_; }
  std::int64_t vocabulary() const { return vocabulary_; }
  DType compute_dtype() const { return compute_; }
  /// The table shared by both embeddings and the output projection; null if they do not share one.
  const Parameter* shared_table() const { return source_table_ == output_table_ ? output_table_ : nullptr; }

  /// Sets masters and compute copies to initial values that depend on the seed only.
  void initialize(Backend& backend, std::uint64_t seed);
  /// Rounds the masters to the compute copies. Call after writing to the masters.
  void refresh_compute_copies(Backend& backend);

  /// Forward, loss and backward of a micro-batch. Adds the gradients of gradient_scale * sum(token losses) to the
  /// parameters' gradients, or overwrites them unless context.accumulate. Returns the result of
  /// OutputProjectionLoss::run(), for FetchedLosses; null for a batch without target tokens. Does not wait for a
  /// device. With context.embedding_rows, embedding gradients go there. shared_table() is then reported ready after the
  /// loss, with the output projection's part only; the caller adds the embedding rows later.
  ConstTensor add_gradients(Context& context, const DeviceBatch& batch, float gradient_scale) const;

  /// Forward and loss only. Writes the most likely id at each position to `predicted` [target tokens] i32 unless null.
  LossSums evaluate(Context& context, const DeviceBatch& batch, Tensor predicted = {}) const;

  /// The encoder output [source tokens, width] in context.saved.
  Tensor encode(Context& context, const Sequences& source) const;
  /// One incremental decoding step. `tokens`: the newest id and position of each hypothesis, [rows]. `layers`: one
  /// StepInput per decoder layer. Returns logits [rows, vocabulary] in context.scratch.
  Tensor decode_step(Context& context, const Sequences& tokens,
                     const std::vector<DecoderLayer::StepInput>& layers) const;
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
  Tensor encode(Context& context, const Sequences& source, EncoderSaved& saved) const;
  Tensor decode(Context& context, const Sequences& target, ConstTensor memory, const Sequences& source,
                DecoderSaved& saved) const;
  void backward_encoder(Context& context, Tensor d, const EncoderSaved& saved) const;
  Tensor part(Tensor joined, std::size_t layer) const;
  /// dmemory is overwritten.
  void backward_decoder(Context& context, Tensor d, Tensor dmemory, const DecoderSaved& saved) const;
  void clear_embedding_gradients(Context& context) const;
  void projection_ready(Context& context) const;
  void embeddings_ready(Context& context) const;

  ModelConfig config_;
  std::int64_t vocabulary_;
  DType compute_;
  ParameterStore store_;
  const Parameter* target_table_;
  const Parameter* source_table_;
  const Parameter* output_table_;
  std::optional<Embedding> source_embedding_, target_embedding_;
  std::vector<EncoderLayer> encoder_;
  std::optional<Norm> encoder_norm_;  // pre-norm only
  std::vector<DecoderLayer> decoder_;
  std::optional<FusedLinear> key_values_;  // key and value projections of all decoder layers
  std::optional<Norm> decoder_norm_;
  std::optional<OutputProjectionLoss> loss_;
};

/// Number of learned scalars of a Transformer, without the padding of its flat arrays. Allocates no memory for them.
std::int64_t count_parameters(const ModelConfig& config, std::int64_t vocabulary);

}  // namespace babelring
