#pragma once

#include <cstdint>
#include <filesystem>
#include <vector>

#include "nmt/comm/communicator.h"
#include "nmt/ops/backend.h"
#include "nmt/train/setup/config.h"
#include "worker/rank_agreement.h"

namespace babelring {

/// The values that must agree on all ranks for their gradients to be summed. Throws Failure if data.folder has no
/// manifest.
std::vector<RankFact> facts_of(const TrainConfig& config, const Backend& backend);

/// data.sequences_per_update of the configuration stored in a run's folder or, unless `resume_from` is empty, in that
/// checkpoint (any path for find_checkpoint()), which rank 0 reads. DataConfig::automatic if the folder has none.
/// Collective. Throws on every rank if there is no such checkpoint or the file cannot be read.
std::int64_t stored_sequences(const std::filesystem::path& run_folder, const std::filesystem::path& resume_from,
                              Communicator& communicator);

}  // namespace babelring
