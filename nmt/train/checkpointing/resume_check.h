#pragma once

#include "nmt/checkpoint/checkpoint.h"
#include "nmt/core/parameters.h"
#include "nmt/data/vocabulary.h"
#include "nmt/model/model.h"
#include "nmt/parallel/parameter_sharding.h"
#include "nmt/train/checkpointing/training_state.h"
#include "nmt/train/setup/config.h"

namespace babelring {

/// Initializes a new run with the weights of the checkpoint training.start_from. `vocabulary` is the run's, null for
/// tasks without text. If the checkpoint has another, rows of tables go by the text of their pieces, and pieces that it
/// lacks get the initial values of training.seed; a line counts them. Collective; rank 0 reads the file.
/// Throws UsageFailure on every rank if the checkpoint does not fit, and Failure if it is damaged.
void start_from_checkpoint(const TrainConfig& config, const Vocabulary* vocabulary, Model& model,
                           const ParameterSharding& sharding, Backend& backend, Communicator& communicator);

/// SHA-256 of the checkpoint's spm.model; empty if it has none.
std::string vocabulary_digest(const Checkpoint& checkpoint);

/// True if the weights are exactly those of these parameters, with equal shapes.
bool weights_fit(const TensorFiles& weights, const ParameterStore& parameters);

/// A line about results if the checkpoint was written with another version of oneDNN than the run's (`state`); empty if
/// it is the same or unknown.
std::string other_onednn(const TrainingState& stored, const TrainingState& state);

/// Compares a checkpoint with the run that resumes from it: configuration, `state` (corpus, threads, ranks) and
/// parameters. Logs a line for each difference: `data.tokens_per_update 2048 → 512`. Keys unknown to the checkpoint's
/// version count as their defaults.
/// Throws UsageFailure naming the keys if the model configuration or the data order differs, unless `accept_changes`.
/// Always throws UsageFailure if the weights do not fit or the vocabulary's digest is not `vocabulary` (empty: not
/// checked). If scores mean something else (`state.scoring`), says so in a line and removes the best score from the
/// checkpoint's state, so that best and patience begin anew. If another data order is accepted, removes the data
/// position, which is invalid then, from the checkpoint's state.
void check_resume(Checkpoint& checkpoint, const TrainConfig& config, const TrainingState& state,
                  const ParameterStore& parameters, const std::string& vocabulary, bool accept_changes);

}  // namespace babelring
