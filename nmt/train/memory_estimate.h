#pragma once

#include <cstdint>

#include "nmt/train/config.h"

namespace babelring {

/// Memory of one rank during an update in bytes, by the purposes used in step records. Memory that the ranks of a host
/// share is counted for each of them. Does not include the program, the corpus and the beam search of validation.
struct MemoryEstimate {
  std::int64_t parameters = 0;                        // number of learned scalars
  std::int64_t source_tokens = 0, target_tokens = 0;  // assumed micro-batch size
  std::int64_t weights = 0, gradients = 0, moments = 0, activations = 0, scratch = 0;

  std::int64_t total() const { return weights + gradients + moments + activations + scratch; }
};

/// Number of learned scalars that the constructor of Transformer declares (nmt/model/transformer.cc).
std::int64_t count_parameters(const ModelConfig& model, std::int64_t vocabulary);

/// Estimates memory without creating a model. Repeats the arithmetic of the allocating code: ParameterStore and Adam
/// for weights, gradients and moments; the layers' `Saved` structs (nmt/layers) for activations; the peak of temporary
/// tensors for scratch. The micro-batch is a rank's part of tokens_per_update, at most micro_batch_tokens, with
/// `source_per_target` source tokens per target token. Assumes a GPU if training.device is cuda, otherwise the CPU.
MemoryEstimate estimate_memory(const TrainConfig& config, std::int64_t vocabulary, std::int64_t ranks,
                               double source_per_target);

}  // namespace babelring
