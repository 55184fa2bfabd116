#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/records/records.h"
#include "server/store/readers.h"

/// Files that tools wrote into the folders of runs. All functions throw SqlFailure.
namespace babelring::store {

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
