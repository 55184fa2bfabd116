#pragma once

#include <cstdint>
#include <vector>

#include "nmt/core/packed_batch.h"
#include "nmt/layers/activation_arenas.h"
#include "nmt/model/language_model.h"

namespace babelring {

/// Losses of a language model for each target of a batch.
struct TokenLosses {
  std::vector<double> nll;     // [targets] -log p in nats
  std::vector<double> spread;  // [targets] mean of -log p over the vocabulary, for label smoothing
  std::int64_t correct = 0;    // targets that are the most likely token
};

/// Computed in double from the model's logits, on the host. Throws away the arenas' tensors.
TokenLosses token_losses(const LanguageModel& model, const PackedBatch& batch, Backend& backend,
                         ActivationArenas& arenas);

/// The model as a language model. Throws UsageFailure that names the other kind of model.
const LanguageModel& require_language_model(const Model& model);

}  // namespace babelring
