#pragma once

#include <cstdint>
#include <filesystem>

#include "nmt/comm/communicator.h"

namespace babelring {

/// data.sequences_per_update of the configuration stored in a run's or a checkpoint's folder, which rank 0 reads.
/// DataConfig::automatic if the folder has none. Collective. Throws on every rank if the file cannot be read.
std::int64_t stored_sequences(const std::filesystem::path& folder, Communicator& communicator);

}  // namespace babelring
