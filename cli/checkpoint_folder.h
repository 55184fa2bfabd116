#pragma once

#include <filesystem>
#include <vector>

#include "nmt/checkpoint/store.h"  // find_checkpoint()

namespace babelring {

/// True if the path is a run's folder or its checkpoints/, with at least one checkpoint.
bool is_run_folder(const std::filesystem::path& given);

/// The newest `count` checkpoints of a run's folder or its checkpoints/, oldest first. Throws Failure if there are
/// fewer.
std::vector<std::filesystem::path> last_checkpoints(const std::filesystem::path& given, int count);

}  // namespace babelring
