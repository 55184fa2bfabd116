#pragma once

#include <cstdint>

#include "nmt/comm/communicator.h"
#include "nmt/ops/backend.h"
#include "nmt/train/setup/config.h"

namespace babelring {

/// Resolves data.sequences_per_update: auto before the model is allocated: the largest update of which every rank
/// computes its part in one pass that fits into its free memory, beside its model; on CPUs into a part of it
/// (host_arena_part), and in about 15 s, measured on a pass. At most all sequences of data.train_set. Other
/// configurations are returned unchanged. Rank 0 logs the answer.
///
/// `stored`: the number with which the run began, which is kept; DataConfig::automatic: a new run. Collective. The
/// generator of data.folder must be part of the configuration, see with_generator_of_folder(). Throws UsageFailure if
/// one sequence does not fit, or if a rank cannot determine its free memory.
TrainConfig with_sequences_that_fit(TrainConfig config, std::int64_t stored, Backend& backend,
                                    Communicator& communicator);

}  // namespace babelring
