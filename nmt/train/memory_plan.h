#pragma once

#include <cstdint>
#include <string>

#include "nmt/comm/communicator.h"
#include "nmt/data/plan.h"
#include "nmt/layers/workspace.h"
#include "nmt/model/transformer.h"
#include "nmt/train/config.h"

namespace babelring {

/// What training's arenas are made for.
struct MemoryPlan {
  std::int64_t micro_batch_tokens = 0;  // as PipelineOptions has it; on all ranks the same
  ArenaBytes need;                      // on a device, for the largest micro-batch to be expected
  std::string answer;                   // for the log: what `auto` came to; else empty
};

/// What `auto` leaves free when the model and its moments are allocated: this fraction of the installed memory, and on
/// a device these bytes besides, because ops allocate memory of their own there.
inline constexpr double memory_margin = 0.1;
inline constexpr std::size_t device_margin_bytes = std::size_t{1} << 30;

/// What the arenas need for forward and backward of a micro-batch of so many tokens on `backend`, found by a dry run
/// that gives every op to one without memory, which computes nothing.
ArenaBytes dry_run(const Transformer& model, Backend& backend, std::int64_t source_tokens, std::int64_t target_tokens);

/// The same for evaluating a batch of up to so many tokens on either side, whatever its sentences.
ArenaBytes dry_run_evaluation(const Transformer& model, Backend& backend, std::int64_t tokens);

/// Turns data.micro_batch_tokens: auto into the most tokens that fit into the free memory of the rank that has least,
/// and measures what the arenas need. Every rank calls it once its model has been made. Throws UsageFailure if not even
/// the longest sentence fits, or a rank cannot tell what is free.
MemoryPlan plan_memory(const TrainConfig& config, const Plan& plan, const Transformer& model, Backend& backend,
                       Communicator& communicator);

}  // namespace babelring
