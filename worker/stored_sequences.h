#pragma once

#include <cstdint>
#include <filesystem>

#include "nmt/comm/communicator.h"

namespace babelring {

/// data.sequences_per_update of the configuration stored in a run's folder or, unless `resume_from` is empty, in that
/// checkpoint (any path for find_checkpoint()), which rank 0 reads. DataConfig::automatic if the folder has none.
/// Collective. Throws on every rank if there is no such checkpoint or the file cannot be read.
std::int64_t stored_sequences(const std::filesystem::path& run_folder, const std::filesystem::path& resume_from,
                              Communicator& communicator);

}  // namespace babelring
