#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "server/store/readers.h"
#include "server/store/rows.h"

/// Checkpoint retention: pinning, removal and policies. Ingest stores the checkpoints that runs report; queries.h has
/// further queries. All functions throw SqlFailure.
namespace babelring::store {

/// A run that has been silent for this long is assumed to write no more checkpoints.
inline constexpr std::int64_t forgotten_ms = 3'600'000;

/// The newest checkpoint of each unfinished run that has reported since `since_ms`. Its folder shows where the run will
/// write the next ones.
std::vector<CheckpointRow> newest_of_active_runs(Reader& reader, std::int64_t since_ms);
/// Returns false if nothing changed: already in that state, or the checkpoint is removed.
bool set_pinned(Database& database, std::string_view id, bool pinned);
/// Marks the checkpoint as removed, before its files are deleted.
void begin_removal(Database& database, std::string_view id);
/// Completes a removal. `removed` false: the files could not be deleted, and the checkpoint is restored.
void end_removal(Database& database, std::string_view id, bool removed);
/// Checkpoints with begin_removal() but no end_removal() yet.
std::vector<CheckpointRow> begun_removals(Reader& reader);
/// All complete checkpoints that are not removed, without their file lists.
std::vector<CheckpointRow> kept_checkpoints(Reader& reader);

/// Sets a run's retention policy (JSON) and the maximum size of its compressed log (absent: the default).
void set_retention(Database& database, std::int64_t run, std::string_view policy,
                   std::optional<std::int64_t> max_log_bytes);
/// The run's retention policy (JSON); empty if none is set.
std::string retention_of(Reader& reader, std::int64_t run);
/// Ids of the runs with a retention policy.
std::vector<std::string> runs_with_retention(Reader& reader);

}  // namespace babelring::store
