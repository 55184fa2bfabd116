#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "nmt/core/parameters.h"
#include "nmt/layers/output_projection_loss.h"
#include "nmt/model/config.h"
#include "nmt/model/device_batch.h"

namespace babelring {

/// A neural network with its parameters, as training sees it. Forward and backward are explicit; there is no autograd.
/// The constructor of a subclass declares the parameters in parameters() and allocates them.
class Model {
 public:
  virtual ~Model() = default;
  Model(const Model&) = delete;
  Model& operator=(const Model&) = delete;

  ParameterStore& parameters() { return store_; }
  const ParameterStore& parameters() const { return store_; }
  std::int64_t vocabulary() const { return vocabulary_; }
  /// The type of activations.
  DType compute_dtype() const { return precision_ == DType::int8 ? DType::f32 : precision_; }
  /// The type in which matmuls read weights.
  DType precision() const { return precision_; }
  /// The kind of model with its article, for messages: "a Transformer".
  virtual const char* kind() const = 0;
  /// The table shared by all embeddings and the output projection; null if they do not share one.
  virtual const Parameter* shared_table() const = 0;

  /// The weight in the loss of guided attention, 0 without it: of batches with links, GuidedAttention's losses of the
  /// first head of alignment_layer() are added to the token losses.
  float guided_alignment() const { return guided_alignment_; }
  void set_guided_alignment(float weight) { guided_alignment_ = weight; }

  /// The weight of R-Drop's loss, 0 without it: add_gradients() then makes two passes with other dropout masks, and
  /// returns the result of OutputProjectionLoss::run_twice(). Both passes read the same tokens.
  float r_drop() const { return r_drop_; }
  void set_r_drop(float weight) { r_drop_ = weight; }

  /// Sets masters and compute copies to initial values that depend on the seed only.
  void initialize(Backend& backend, std::uint64_t seed);
  /// Rounds the masters to the compute copies. Call after writing to the masters.
  void refresh_compute_copies(Backend& backend);

  /// Forward, loss and backward of a micro-batch. Adds the gradients of gradient_scale * sum(token losses) to the
  /// parameters' gradients, or overwrites them unless context.accumulate. Returns the result of
  /// OutputProjectionLoss::run(), for FetchedLosses; null for a batch without target tokens. Does not wait for a
  /// device. With context.embedding_rows, embedding gradients go there. shared_table() is then reported ready after the
  /// loss, with the output projection's part only; the caller adds the embedding rows later.
  virtual ConstTensor add_gradients(Context& context, const DeviceBatch& batch, float gradient_scale) const = 0;

  /// Forward and loss only. Writes the most likely id at each position to `predicted` [target tokens] i32 unless null.
  virtual LossSums evaluate(Context& context, const DeviceBatch& batch, Tensor predicted = {}) const = 0;

 protected:
  /// `precision` (f32, bf16 or, for inference, int8) is the data type of matmuls.
  Model(std::int64_t vocabulary, DType precision) : vocabulary_(vocabulary), precision_(precision) {}
  /// add_gradients() of a batch without target tokens: clears the gradients unless context.accumulate, and reports each
  /// ready.
  void add_no_gradients(Context& context) const;
  /// Instead of the backward pass of a layer that was left out: clears the gradients of the parameters whose names
  /// begin with `layer` and a point, unless context.accumulate, and reports each ready.
  void skip_layer(Context& context, const std::string& layer) const;
  /// The context of R-Drop's second pass, whose backward pass comes first: it has other dropout masks, and reports no
  /// gradient ready.
  static Context second_pass(const Context& context);

 private:
  std::int64_t vocabulary_;
  DType precision_;
  float guided_alignment_ = 0, r_drop_ = 0;
  ParameterStore store_;
};

/// Whether each row of the parameter belongs to a piece of the vocabulary: of the tables and of the output's bias.
bool has_row_per_piece(const Parameter& parameter);

/// Allocates weights and gradients in the backend's memory. The backend must outlive the allocators.
ParameterMemory parameter_memory_of(Backend& backend);

/// The model that the configuration describes, a Transformer or, without encoder layers, a LanguageModel, with zeroed
/// arrays from `memory`. `compute` (f32, bf16 or, for inference, int8) is the data type of matmuls.
std::unique_ptr<Model> make_model(const ModelConfig& config, std::int64_t vocabulary, float label_smoothing,
                                  const ParameterMemory& memory, DType compute);

/// Number of learned scalars of a model, without the padding of its flat arrays. Allocates no memory for them.
std::int64_t count_parameters(const ModelConfig& config, std::int64_t vocabulary);

}  // namespace babelring
