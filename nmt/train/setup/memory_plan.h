#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>

#include "nmt/comm/communicator.h"
#include "nmt/data/update_source.h"
#include "nmt/layers/context.h"
#include "nmt/model/model.h"
#include "nmt/ops/backend.h"
#include "nmt/train/setup/config.h"

namespace babelring {

/// The part of memory that `auto` leaves free after the model and its moments are allocated: this fraction of the
/// total, plus a fixed size on a device, for the memory that its libraries allocate.
inline constexpr double memory_margin = 0.1;
inline constexpr std::size_t device_margin_bytes = std::size_t{1} << 30;

/// For messages about `auto`.
inline constexpr const char* unknown_memory = "free memory is unknown on at least one rank; give a number";

/// The fraction that `auto` gives to the arenas, of the memory that a host has for each of its ranks. A larger pass is
/// no faster on CPUs; the rest is for other programs that start later, and for rare allocations, as in beam search.
inline constexpr double host_arena_part = 0.5;
/// Bytes that a process of a host takes during the first updates for no purpose of the ledger: compiled matmuls,
/// threads, the log. Measured: 30 to 40 MB with 5 to 50 shapes of matmuls.
inline constexpr std::size_t process_growth_bytes = std::size_t{64} << 20;

/// Bytes that are allocated between a plan and the end of the first updates, beside arenas.
struct LaterMemory {
  std::size_t of_host = 0, of_rank = 0;
};

/// A run's: batches that wait, the copy of weights and moments of a checkpoint that is being written, the translations
/// of a validation, and the growth of the process. `tokens`: of a rank's part of an update, on its larger side. Zero on
/// a device.
LaterMemory later_memory(const TrainConfig& config, const Backend& backend, std::int64_t tokens,
                         std::int64_t parameters);

/// Bytes of the free memory `room` that this rank may use: its part of a host's memory, or that of its device.
std::size_t arena_room(const Backend& backend, const Communicator& communicator, const MemoryInfo& room,
                       const LaterMemory& later);
/// The part of arena_room() for the arenas of more than the smallest pass.
std::size_t arena_part(const Backend& backend, std::size_t usable);

/// "rank 0 may use 1.20 GiB, 3.10 of 4.00 GiB were free". `usable`: of this rank, in bytes.
std::string room_text(std::size_t usable, const MemoryInfo& room);
/// "a rank may use 1000: 2000 of 4000 bytes are free", for refusals, and for what the rest stays free.
std::string too_little_text(std::size_t usable, const MemoryInfo& room, const LaterMemory& later);

/// The max size from `min` to `max` that fits, by bisection to 1 % or `tolerance`. 0 if `min` does not fit. `min` may
/// be larger than `max`.
std::int64_t max_fitting(std::int64_t min, std::int64_t max, std::int64_t tolerance,
                         const std::function<bool(std::int64_t size)>& fits);

/// The smallest value of all ranks. Collective.
std::int64_t min_over_ranks(std::int64_t mine, Communicator& communicator);

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

/// Sets parameters, weights, gradients and moments, with the average of training.ema. `gradients`: copies of the
/// gradient that a rank keeps.
void add_model(MemoryEstimate& estimate, const TrainConfig& config, const Model& model, std::int64_t gradients);

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
