#pragma once

#include <filesystem>
#include <string>

#include "cli/sweep/grid.h"

namespace babelring {

/// A bash script that trains the tasks of `folder` one after another.
std::string local_sweep_script(const SweepGrid& grid, const std::filesystem::path& folder);

/// A Slurm job array with a task for each of the `tasks` configurations of `folder`.
std::string slurm_sweep_script(const SweepGrid& grid, const std::filesystem::path& folder, std::size_t tasks);

}  // namespace babelring
