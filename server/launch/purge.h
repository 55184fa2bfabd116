#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "server/store/checkpoints.h"
#include "server/store/store.h"

namespace babelring::launch {

/// Time for which a deleted run can be restored.
inline constexpr std::int64_t deleted_kept_ms = std::int64_t{7} * 24 * 3600 * 1000;

/// Removes a checkpoint from disk. Throws if it must stay. Its folder was reported by a worker and is untrusted.
using RemoveCheckpoint = std::function<void(const store::CheckpointRow&)>;

/// Records the purge of a run, in the transaction that purges it.
using NotePurge = std::function<void(store::Database&, const std::string& run)>;

/// Permanently removes runs deleted more than deleted_kept_ms ago. If the deletion requested it, also removes their
/// checkpoints, and the run folder if the server started the run.
void purge_deleted_runs(store::Store& store, const RemoveCheckpoint& remove, const NotePurge& note,
                        std::int64_t now_ms);

}  // namespace babelring::launch
