#pragma once

#include <cstdint>
#include <string>

#include "nmt/comm/communicator.h"
#include "nmt/data/update_source.h"
#include "nmt/layers/activation_arenas.h"
#include "nmt/model/model.h"
#include "nmt/train/setup/config.h"

namespace babelring {

/// Micro-batch size and arena sizes of a training run.
struct MemoryPlan {
  std::int64_t micro_batch_tokens = 0;  // for RankPart; equal on all ranks
  ArenaBytes need;                      // of the largest expected micro-batch; zero: nothing is reserved
  std::string answer;                   // log line with the result of `auto`; otherwise empty
};

/// The largest micro-batch whose memory is estimated.
inline constexpr std::int64_t max_estimated_tokens = std::int64_t{1} << 24;

inline std::size_t total_of(const ArenaBytes& arenas) {
  return arenas.saved + arenas.scratch;
}

/// A batch of sentences of equal length (up to one token) whose tokens are all id 0.
PackedBatch even_batch(std::int64_t source_tokens, std::int64_t target_tokens, std::int64_t sentences);
/// How many sentences dry_run() assumes: of 32 tokens on the longer side.
std::int64_t dry_sentences(std::int64_t source_tokens, std::int64_t target_tokens);

/// Arena sizes for forward and backward of a micro-batch with the given tokens on `backend`. Measured by a dry run on a
/// backend that allocates no memory and computes nothing. `sentences`: of equal length; 0: dry_sentences().
ArenaBytes dry_run(const Model& model, Backend& backend, std::int64_t source_tokens, std::int64_t target_tokens,
                   std::int64_t sentences = 0);

/// Arena sizes for evaluating any batch of up to `tokens` tokens per side.
ArenaBytes dry_run_evaluation(const Model& model, Backend& backend, std::int64_t tokens);

/// Memory of one rank during an update in bytes, by the purposes used in step records. Memory that the ranks of a host
/// share is counted for each of them. Does not include the program, the corpus and the beam search of validation.
struct MemoryEstimate {
  std::int64_t parameters = 0;                        // number of learned scalars
  std::int64_t source_tokens = 0, target_tokens = 0;  // assumed micro-batch size
  std::int64_t weights = 0, gradients = 0, moments = 0, activations = 0, scratch = 0;

  std::int64_t total() const { return weights + gradients + moments + activations + scratch; }
};

/// Sets parameters, weights, gradients and moments. `gradients`: copies of the gradient that a rank keeps.
void add_model(MemoryEstimate& estimate, const Model& model, std::int64_t gradients);

/// Estimates memory before a run, with dry_run() and without allocating a model. The micro-batch is a rank's part of
/// tokens_per_update, at most micro_batch_tokens, with `source_per_target` source tokens per target token. If
/// training.device is cuda, assumes a GPU with the largest chunks of logits; otherwise the CPU.
/// Throws Failure if the micro-batch has more than 16,777,216 tokens.
MemoryEstimate estimate_memory(const TrainConfig& config, std::int64_t vocabulary, std::int64_t ranks,
                               double source_per_target);

/// Throws UsageFailure if a configuration with `auto` sizes needs more host memory for its model alone than the ranks
/// of a host may use, before the model is allocated. Collective. Does nothing on a device, which refuses by itself.
void require_room_for_model(const TrainConfig& config, std::int64_t vocabulary, const Backend& backend,
                            Communicator& communicator);

/// Resolves data.micro_batch_tokens: auto to the max number of tokens that fits into the free memory of every rank; of
/// a host only into host_arena_part of it, but for a single sentence. Measures the arena sizes on a device, with
/// `auto`, and for sequences, whose updates are equal: growing arenas take more in their first pass. Collective: every
/// rank calls it after its model is allocated. Throws UsageFailure if a sentence of data.max_length does not fit, or if
/// a rank cannot determine its free memory.
/// `validation`: what the arenas need for it, also on a host.
MemoryPlan plan_memory(const TrainConfig& config, const UpdateShape& shape, const Model& model, Backend& backend,
                       Communicator& communicator, const ArenaBytes& validation = {});

}  // namespace babelring
