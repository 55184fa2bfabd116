#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "nmt/data/manifest.h"
#include "nmt/train/config.h"

namespace babelring {

/// Splits a configuration error message into its parts: {"pointer": "/training/seed", "detail": …, "line": 3,
/// "column": 9}. Line and column are absent if the message has none. The pointer is empty if the message names no key.
json::object config_fault(std::string_view message, std::string_view file);

/// Throws Failure if a configured training or validation set is missing or empty.
void check_sets(const Manifest& manifest, const DataConfig& data);

/// Implements --check-config: prints one line of JSON to standard output, for a server that is about to start a run.
/// {"config": resolved YAML, "name", "max_updates", "data_folder", "start_from", "memory": {…} or null,
/// "not_estimated": […]}, or {"errors": [fault]} with faults from config_fault(). `memory` is the estimate of
/// nmt/train/memory_plan.h for one of `ranks` ranks. It needs the vocabulary size, so it is null if data.folder
/// cannot be read. `data`: also run check_sets(). Returns the exit code: 0, or 2 on errors.
int print_config_check(const std::string& file, const std::vector<std::string>& overrides, bool data,
                       std::int64_t ranks);

}  // namespace babelring
