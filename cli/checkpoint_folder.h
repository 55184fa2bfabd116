#pragma once

#include <filesystem>
#include <vector>

namespace babelring {

/// The checkpoint that a user means by a path: the folder of one checkpoint itself; or, of a run's folder or its
/// checkpoints/, the best one if there is one, else the newest. Reads only. Throws Failure saying what was expected.
std::filesystem::path find_checkpoint(const std::filesystem::path& given);

/// Whether a path is not a checkpoint but a run's folder or its checkpoints/, with at least one in it.
bool is_run_folder(const std::filesystem::path& given);

/// The newest `count` checkpoints of a run's folder or its checkpoints/, oldest first. Throws Failure if there are
/// fewer.
std::vector<std::filesystem::path> last_checkpoints(const std::filesystem::path& given, int count);

}  // namespace babelring
