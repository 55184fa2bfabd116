#pragma once

#include <filesystem>
#include <vector>

namespace babelring {

/// Resolves a user's path to a checkpoint folder. A checkpoint folder is returned as is. For a run's folder or its
/// checkpoints/, returns the best checkpoint, or the newest if there is no best. Throws Failure if there is none.
std::filesystem::path find_checkpoint(const std::filesystem::path& given);

/// True if the path is a run's folder or its checkpoints/, with at least one checkpoint.
bool is_run_folder(const std::filesystem::path& given);

/// The newest `count` checkpoints of a run's folder or its checkpoints/, oldest first. Throws Failure if there are
/// fewer.
std::vector<std::filesystem::path> last_checkpoints(const std::filesystem::path& given, int count);

}  // namespace babelring
