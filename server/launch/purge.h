#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "server/store/rows.h"
#include "server/store/store.h"

namespace babelring::launch {

/// How long a deleted run can be had back.
inline constexpr std::int64_t deleted_kept_ms = std::int64_t{7} * 24 * 3600 * 1000;

/// Removes one checkpoint from disk; throws if it must stay. Its folder is what a worker reported: not to be trusted.
using RemoveCheckpoint = std::function<void(const store::CheckpointRow&)>;

/// Notes that a run is removed for good, in the transaction that does it.
using NotePurge = std::function<void(store::Database&, const std::string& run)>;

/// Removes the runs for good that were deleted long enough ago. Where that was asked for, their checkpoints go, too,
/// and the folder of a run that the server started.
void purge_deleted_runs(store::Store& store, const RemoveCheckpoint& remove, const NotePurge& note,
                        std::int64_t now_ms);

}  // namespace babelring::launch
