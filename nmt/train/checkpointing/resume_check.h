#pragma once

#include "nmt/checkpoint/checkpoint.h"
#include "nmt/core/parameters.h"
#include "nmt/train/checkpointing/run_state.h"
#include "nmt/train/config.h"

namespace babelring {

/// Of the checkpoint's spm.model; empty if it has none.
std::string vocabulary_digest(const Checkpoint& checkpoint);

/// Whether a file has exactly these parameters, with their shapes.
bool weights_fit(const SafetensorsReader& weights, const ParameterStore& parameters);

/// Compares the checkpoint that a run is to resume from with the run: its configuration, `state` (corpus, threads,
/// ranks) and its parameters. Logs a line for each difference, `data.tokens_per_update 2048 → 512`; a key that the
/// checkpoint's version did not have counts as its default. Throws UsageFailure, naming the keys, if the model or the
/// order of the data is another one, unless that is accepted, and always if the weights do not fit or their vocabulary
/// is not `vocabulary`, a digest (empty: not compared). If another order is accepted, removes the position from the
/// checkpoint's state, which then holds for the other order no longer.
void check_resume(Checkpoint& checkpoint, const TrainConfig& config, const RunState& state,
                  const ParameterStore& parameters, const std::string& vocabulary, bool accept_changes);

}  // namespace babelring
