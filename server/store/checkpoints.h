#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/records/records.h"
#include "server/store/metrics.h"
#include "server/store/readers.h"

namespace babelring::store {

// Checkpoints of runs, and how long they are kept. All functions throw SqlFailure.

struct CheckpointRow {
  std::int64_t number = 0;
  std::string id, run, name, folder;
  std::int64_t step = 0, created_ms = 0;
  std::string files;  // JSON array of {name, size, sha256}
  double sacrebleu = absent, loss = absent, write_seconds = absent;
  bool best = false, removed = false, pinned = false;
  std::string version;          // program version that wrote it; empty: unknown
  std::int64_t world_size = 0;  // number of ranks of the training; 0: unknown
};

/// Selects checkpoints to list: ordered by update or by sacreBLEU, descending, starting after `before`.
struct CheckpointFilter {
  std::optional<bool> complete, pinned;
  bool removed = false;  // include removed checkpoints
  bool by_bleu = false;
  std::pair<std::int64_t, std::int64_t> before;  // (step, number) of the previous page's last row; {0, 0}: first page
  std::int64_t limit = 50;
};

/// Stores a checkpoint that a rank reports, or the removal of one, and returns its id. `record` must hold a
/// CheckpointRecord.
std::string upsert_checkpoint(Database& database, std::int64_t run, const Record& record);
std::vector<CheckpointRow> list_checkpoints(Reader& reader, std::int64_t run, const CheckpointFilter& filter);
/// Checkpoints before (step, number), newest update first. {0, 0}: all.
inline std::vector<CheckpointRow> list_checkpoints(Reader& reader, std::int64_t run, bool removed,
                                                   std::pair<std::int64_t, std::int64_t> before, std::int64_t limit) {
  return list_checkpoints(reader, run, CheckpointFilter{{}, {}, removed, false, before, limit});
}
std::optional<CheckpointRow> find_checkpoint(Reader& reader, std::string_view id);

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

// Files that tools wrote into the folders of runs. All functions throw SqlFailure.

struct ArtifactRow {
  std::int64_t number = 0;
  std::string id, run, name, kind, folder, sha256;
  std::int64_t attempt = 0, rank = 0;  // that wrote it last
  std::int64_t step = 0, created_ms = 0, size = 0;
  bool removed = false;
  std::int64_t content_bytes = 0;  // 0: no content
};

/// Selects artifacts to list, in descending order of update.
struct ArtifactFilter {
  std::string kind;                              // empty: all kinds
  bool removed = false;                          // include removed ones
  std::pair<std::int64_t, std::int64_t> before;  // (step, number) of the previous page's last row; {0, 0}: first page
  std::int64_t limit = 50;
};

/// Stores an artifact, which replaces the run's earlier one of that name, or the removal of one. Returns its id; empty
/// if an unknown artifact was removed. `record` must hold an ArtifactRecord.
std::string upsert_artifact(Database& database, std::int64_t run, const Record& record);
std::vector<ArtifactRow> list_artifacts(Reader& reader, std::int64_t run, const ArtifactFilter& filter);
std::optional<ArtifactRow> find_artifact(Reader& reader, std::string_view id);
/// The content (JSON); empty if there is none.
std::string content_of_artifact(Reader& reader, std::string_view id);

}  // namespace babelring::store
