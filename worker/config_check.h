#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "nmt/data/manifest.h"
#include "nmt/train/config.h"

namespace babelring {

/// The parts of a configuration's error message: {"pointer": "/training/seed", "detail": …, "line": 3, "column":
/// 9}. Without a place in the file, line and column are absent; without a key the pointer is empty.
json::object config_fault(std::string_view complaint, std::string_view file);

/// Throws Failure unless the sets that the configuration names are there and have sentence pairs.
void check_sets(const Manifest& manifest, const DataConfig& data);

/// For a server that asks before it starts a run: one line of JSON on standard output, {"config": resolved YAML,
/// "name", "max_updates", "data_folder", "memory": {…} or null, "not_estimated": […]}, or {"errors": [fault]}. `memory`
/// is nmt/train/memory_estimate.h's for a rank of `ranks`; null where data.folder cannot be read, which tells the
/// vocabulary's size. `data`: also check that data.folder holds what the configuration names. Returns the exit code: 0,
/// or 2 when there are errors.
int print_config_check(const std::string& file, const std::vector<std::string>& overrides, bool data,
                       std::int64_t ranks);

}  // namespace babelring
