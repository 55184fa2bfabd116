#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "nmt/core/packed_batch.h"
#include "nmt/data/sequence_source.h"
#include "nmt/layers/context.h"
#include "nmt/model/language_model.h"
#include "nmt/parallel/rank_context.h"
#include "nmt/train/evaluation/validator.h"

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

/// Packs sequences [range.first, range.last) of the set into batches of at most 2048 targets or a single sequence, and
/// calls `use` for each.
void for_each_sequence_batch(const SequenceSet& set, const SequenceRange& range,
                             const std::function<void(const PackedBatch&)>& use);

/// The max number of targets in such a batch.
std::int64_t sequence_batch_targets(std::int64_t sequence_length);

/// Evaluates a language model on held-out sequences: loss, nll and accuracy of their tokens, and the source's exact
/// entropy.
class SequenceValidator : public Validator {
 public:
  /// All must outlive the validator. `threads` compute the entropy, at the first run(). `part`: this rank's part of the
  /// sequences, by ranks or by units as of an update.
  SequenceValidator(const SequenceSet& set, const RankContext& rank, const RankPart& part, int threads);

  EvalRecord run(const Model& model, bool translate) override;
  json::object scoring(const TrainConfig& config) const override;
  ArenaBytes need(const Model& model) const override;

 private:
  const SequenceSet& set_;
  RankContext rank_;
  RankPart part_;
  int threads_;
  std::optional<double> entropy_;  // this rank's part, in nats
};

}  // namespace babelring
