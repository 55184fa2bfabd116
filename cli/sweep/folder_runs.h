#pragma once

#include <filesystem>
#include <map>
#include <string>

#include "base/json.h"

namespace babelring {

/// The file in the folder of `nmt sweep expand` that lists the tasks: number, cell and settings, separated by tabs.
inline constexpr const char* sweep_task_table = "tasks.tsv";

/// True if `nmt sweep expand` has written into the folder.
bool is_sweep_folder(const std::filesystem::path& folder);

/// The runs of a sweep in the folder of `nmt sweep expand`, by SweepCell::id, from the spools of their rank 0: what
/// sweep_results() reads of items of GET /runs, with the same meaning. A cell without a spool has the state "queued"; a
/// run that has not ended is "running" while a worker holds its folder, otherwise "lost". Throws Failure, naming file
/// and line, if the table or a record is damaged.
std::map<std::string, json::object> folder_runs(const std::filesystem::path& folder);

}  // namespace babelring
