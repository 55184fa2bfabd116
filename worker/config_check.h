#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/json.h"

namespace babelring {

/// Implements --check-config: prints one line of JSON to standard output, for a server that is about to start a run.
/// {"config": resolved YAML, "name", "max_updates", "data_folder", "start_from", "memory": {…} or null,
/// "not_estimated": […]}, or {"errors": [{"pointer": "/training/seed", "detail", "line": 3, "column": 9}]}; line and
/// column are absent if unknown, and the pointer is empty if the error concerns no single key. `memory` is the estimate
/// of nmt/train/setup/memory_plan.h for one of `ranks` ranks. It needs the vocabulary size, so it is null if
/// data.folder cannot be read. "data_folder" is empty for sequences that are made on the fly. `data`: also run
/// check_task_data(). Returns the exit code: 0, or 2 on errors.
int print_config_check(const std::string& file, const std::vector<std::string>& overrides, bool data,
                       std::int64_t ranks);

}  // namespace babelring
