#pragma once

#include <cstdint>

#include "nmt/train/config.h"

namespace babelring {

/// The bytes of a rank's arrays while it computes an update, by the purposes of step records; what ranks of a host
/// share counts for each. Without the program itself, the corpus and what validation's beam search keeps.
struct MemoryEstimate {
  std::int64_t parameters = 0;                        // learned numbers
  std::int64_t source_tokens = 0, target_tokens = 0;  // of the micro-batch that is assumed
  std::int64_t weights = 0, gradients = 0, moments = 0, activations = 0, scratch = 0;

  std::int64_t total() const { return weights + gradients + moments + activations + scratch; }
};

/// Learned numbers of a Transformer, as its constructor declares them (nmt/model/transformer.cc).
std::int64_t count_parameters(const ModelConfig& model, std::int64_t vocabulary);

/// The same arithmetic as the code that makes the arrays: weights, gradients and moments are those of ParameterStore
/// and Adam; activations and scratch are what the layers keep of a micro-batch (`Saved` in nmt/layers) and need
/// besides at most. A micro-batch is a rank's part of tokens_per_update, or micro_batch_tokens where that is less, with
/// `source_per_target` source tokens for each target token. On a GPU if training.device is cuda, otherwise on the
/// processor.
MemoryEstimate estimate_memory(const TrainConfig& config, std::int64_t vocabulary, std::int64_t ranks,
                               double source_per_target);

}  // namespace babelring
