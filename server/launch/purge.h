#pragma once

#include <cstdint>
#include <filesystem>
#include <vector>

#include "server/store/store.h"

namespace babelring::launch {

/// How long a deleted run can be had back.
inline constexpr std::int64_t deleted_kept_ms = std::int64_t{7} * 24 * 3600 * 1000;

/// Removes the runs for good that were deleted long enough ago, and, where that was asked for, their checkpoints: those
/// of a run that the server started with its folder, others where they were recorded, below `roots` only.
void purge_deleted_runs(store::Store& store, const std::vector<std::filesystem::path>& roots, std::int64_t now_ms);

}  // namespace babelring::launch
