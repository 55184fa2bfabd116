#pragma once

#include <cstdint>
#include <string>

#include "base/json.h"
#include "nmt/train/checkpointing/training_state.h"

namespace babelring {

/// The name of held-out sequences that are made on the fly: that under which the run validates on them.
std::string generated_set(const TrainConfig& config);

/// The held-out sequences of `nmt evaluate`.
struct EvaluatedSequences {
  std::string data;            // folder of `nmt gssm data`; empty: generated, as a run on the fly validates
  std::string set = "test";    // of `data`
  std::int64_t sequences = 0;  // first sequences of the set; 0: all, or validation.sequences of them
};

/// Evaluates the language model of a checkpoint. The object has the members set, sequences, target_tokens, loss, nll,
/// perplexity, accuracy, and where the source's entropy is known entropy, excess and excess_standard_error, all in nats
/// per token. Its array `along` gives nll, entropy and excess for up to eight parts of the sequence, first to last: a
/// model that learns a sequence's kernels in its context does better on late tokens. Throws Failure.
json::object evaluate_sequences(const LoadedModel& loaded, const EvaluatedSequences& choice, Backend& backend);

/// Prints the object as a table.
void print_sequence_report(const json::object& figures);

}  // namespace babelring
