#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "server/store/readers.h"
#include "server/store/rows.h"

/// Changes of checkpoints other than those that their runs report, and retention. More queries: queries.h. All
/// functions throw SqlFailure.
namespace babelring::store {

inline constexpr std::int64_t forgotten_ms = 3'600'000;  // a run silent for this long writes no more checkpoints

/// The newest checkpoint of each run that is not over and reported after `since_ms`: it tells where the next ones will
/// be written.
std::vector<CheckpointRow> newest_of_active_runs(Reader& reader, std::int64_t since_ms);
/// False if it was so already or the checkpoint is removed.
bool set_pinned(Database& database, std::string_view id, bool pinned);
/// The checkpoint counts as removed from now on; its files are deleted next.
void begin_removal(Database& database, std::string_view id);
/// Its files are deleted, or with `removed` false they stay after all.
void end_removal(Database& database, std::string_view id, bool removed);
/// Checkpoints whose removal was begun and not ended.
std::vector<CheckpointRow> begun_removals(Reader& reader);
/// All complete checkpoints that are not removed, without their lists of files.
std::vector<CheckpointRow> kept_checkpoints(Reader& reader);

/// Sets a run's retention policy (JSON) and the bytes that its compressed log may take (absent: the default).
void set_retention(Database& database, std::int64_t run, std::string_view policy,
                   std::optional<std::int64_t> max_log_bytes);
/// Empty if none was set.
std::string retention_of(Reader& reader, std::int64_t run);
/// Ids of the runs that have a policy.
std::vector<std::string> runs_with_retention(Reader& reader);

}  // namespace babelring::store
