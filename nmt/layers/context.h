#pragma once

#include <cstdint>
#include <functional>

#include "nmt/core/arena.h"
#include "nmt/core/parameters.h"
#include "nmt/core/random.h"
#include "nmt/layers/packed_weights.h"
#include "nmt/ops/backend.h"

namespace babelring {

enum class Phase { forward, backward };

/// Measures the time of each phase.
class PhaseClock {
 public:
  virtual ~PhaseClock() = default;
  virtual void enter(Phase phase) = 0;
};

/// A compact gradient for the embedding rows that a batch uses. Embedding gradients are added to it instead of to the
/// shared table's gradient, which then contains the output projection's part only. Each row belongs to one id.
struct EmbeddingRows {
  Tensor gradient;             // [rows, width] f32
  ConstTensor source, target;  // [tokens] i32: row of each token
};

/// The resources and settings of one step, passed to every layer call. Layers never store it.
struct Context {
  Backend& backend;
  Arena& saved;                    // valid until the micro-batch's backward has ended
  Arena& scratch;                  // temporary; each layer rewinds it before it returns
  DType dtype = DType::f32;        // data type of activations
  bool training = false;           // false: no dropout
  bool accumulate = true;          // false: backward overwrites gradients (first micro-batch of an update)
  std::uint64_t dropout_seed = 0;  // differs for each update
  PhaseClock* clock = nullptr;
  PackedWeights* packed_weights = nullptr;        // prepacked weights for forward matmuls; inference only
  const EmbeddingRows* embedding_rows = nullptr;  // only if embeddings and output projection share a table
  /// Called by forward before it reads a parameter. May be empty.
  std::function<void(const Parameter&)> before_read;
  /// Called by backward when a parameter's gradient is complete for this micro-batch. May be empty.
  std::function<void(const Parameter&)> gradient_ready;

  /// `site`: unique number of the dropout layer within the model.
  DropoutKey dropout_key(std::uint64_t site, std::int64_t first_row, float probability) const {
    return {derive_seed(dropout_seed, site), first_row, training ? probability : 0.0f};
  }
  void will_read(const Parameter* parameter) const {
    if (parameter != nullptr && before_read) before_read(*parameter);
  }
  void ready(const Parameter* parameter) const {
    if (parameter != nullptr && gradient_ready) gradient_ready(*parameter);
  }
  const PackedWeight* packed(ConstTensor weight) const {
    return packed_weights == nullptr ? nullptr : packed_weights->of(weight);
  }
  void enter(Phase phase) const {
    if (clock != nullptr) clock->enter(phase);
  }
};

/// Packed sentences in the backend's memory, except for the offsets.
struct Sequences {
  ConstTensor ids;             // [tokens] i32
  ConstTensor positions;       // [tokens] i32, starting at 0 in each sentence
  ConstTensor offsets;         // [sentences + 1] i32, in host memory
  std::int64_t first_row = 0;  // index of the first token within the update, for dropout

  std::int64_t tokens() const { return ids.shape.elements(); }
};

}  // namespace babelring
