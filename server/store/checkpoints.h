#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "server/store/readers.h"
#include "server/store/rows.h"

/// What becomes of checkpoints besides what their runs report. Reading them: queries.h. Each throws SqlFailure.
namespace babelring::store {

inline constexpr std::int64_t forgotten_ms = 3'600'000;  // a run that said nothing for so long writes no checkpoint

/// The newest checkpoint of each run that is not over and reported after `since_ms`: where the next ones will be
/// written.
std::vector<CheckpointRow> newest_of_active_runs(Reader& reader, std::int64_t since_ms);
/// False where it was so already, or the checkpoint is removed.
bool set_pinned(Database& database, std::string_view id, bool pinned);
/// It counts as removed from now on; its files go next.
void begin_removal(Database& database, std::string_view id);
/// Its files are gone, or with `removed` false stay after all.
void end_removal(Database& database, std::string_view id, bool removed);
/// Removals that were begun and not ended.
std::vector<CheckpointRow> begun_removals(Reader& reader);
/// All complete ones that are not removed, without their files.
std::vector<CheckpointRow> kept_checkpoints(Reader& reader);

/// A run's retention policy, as JSON, and the bytes that its packed log may have (absent: the default).
void set_retention(Database& database, std::int64_t run, std::string_view policy,
                   std::optional<std::int64_t> max_log_bytes);
/// Empty where none was set.
std::string retention_of(Reader& reader, std::int64_t run);
/// Ids of the runs that have a policy.
std::vector<std::string> runs_with_retention(Reader& reader);

}  // namespace babelring::store
