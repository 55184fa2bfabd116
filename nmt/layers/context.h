#pragma once

#include <cstdint>
#include <functional>
#include <string_view>

#include "nmt/core/arena.h"
#include "nmt/core/parameters.h"
#include "nmt/core/random.h"
#include "nmt/layers/packed_weights.h"
#include "nmt/ops/backend.h"

namespace babelring {

enum class Phase { forward, backward };

/// What the lab tools see of a step: called with names and views that are valid during the call only.
class StepObserver {
 public:
  virtual ~StepObserver() = default;
  virtual void tensor(std::string_view layer, Phase, std::string_view role, ConstTensor) = 0;
};

/// Hears which phase the work that follows belongs to.
class PhaseClock {
 public:
  virtual ~PhaseClock() = default;
  virtual void enter(Phase phase) = 0;
};

/// Where the gradients of the source's and the target's embeddings are added instead of to their table's: that is then
/// the output projection's alone. Row i belongs to one id of the table.
struct EmbeddingRows {
  Tensor gradient;             // [rows, width] f32
  ConstTensor source, target;  // [tokens] i32: each token's row
};

/// What a layer borrows from the step it runs in; never stored.
struct Context {
  Backend& backend;
  Arena& saved;                    // lives until the micro-batch's backward is over
  Arena& scratch;                  // rewound by the layer that took from it
  DType dtype = DType::f32;        // of activations
  bool training = false;           // false: no dropout
  bool accumulate = true;          // false: backward overwrites the gradients, for an update's first micro-batch
  std::uint64_t dropout_seed = 0;  // of the update
  StepObserver* observer = nullptr;
  PhaseClock* clock = nullptr;
  PackedWeights* packed_weights = nullptr;        // where forward products find their weights, in inference alone
  const EmbeddingRows* embedding_rows = nullptr;  // only where embeddings and projection share a table
  /// Called in backward when a parameter's gradient is complete for this micro-batch; may be empty.
  std::function<void(const Parameter&)> gradient_ready;

  /// `site` numbers the places of dropout in a model.
  DropoutKey dropout_key(std::uint64_t site, std::int64_t first_row, float probability) const {
    return {derive_seed(dropout_seed, site), first_row, training ? probability : 0.0f};
  }
  void observe(std::string_view layer, Phase phase, std::string_view role, ConstTensor tensor) const {
    if (observer != nullptr) observer->tensor(layer, phase, role, tensor);
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

/// Packed sentences, all but their offsets on the device.
struct Sequences {
  ConstTensor ids;             // [tokens] i32
  ConstTensor positions;       // [tokens] i32, from 0 in each sentence
  ConstTensor offsets;         // [sentences + 1] i32, in the host's memory
  std::int64_t first_row = 0;  // global row, within the update, of the first token: for dropout

  std::int64_t tokens() const { return ids.shape.elements(); }
};

}  // namespace babelring
