#include "server/store/artifacts.h"

#include "base/check_name.h"
#include "server/store/home.h"

namespace babelring::store {

template <const_or_not<ArtifactRow> Row, class Column>
void visit_columns(Row& artifact, Column&& column) {
  column.key("artifact", artifact.number);
  column("a.id", artifact.id);
  column("runs.id", artifact.run);
  column("a.name", artifact.name);
  column("kind", artifact.kind);
  column("folder", artifact.folder);
  column("sha256", artifact.sha256);
  column("a.attempt", artifact.attempt);
  column("rank", artifact.rank);
  column("step", artifact.step);
  column("a.created_ms", artifact.created_ms);
  column("size", artifact.size);
  column("removed", artifact.removed);
  column("content_bytes", artifact.content_bytes);
}

namespace {

constexpr std::string_view artifact_upsert = R"sql(
  INSERT INTO artifacts(id, run, attempt, rank, name, kind, step, created_ms, folder, size, sha256, content_bytes,
                        content)
  VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
  ON CONFLICT(run, name) DO UPDATE SET
    attempt = excluded.attempt, rank = excluded.rank, kind = excluded.kind, step = excluded.step,
    created_ms = excluded.created_ms, folder = excluded.folder, size = excluded.size, sha256 = excluded.sha256,
    content_bytes = excluded.content_bytes, content = excluded.content, removed = 0
  RETURNING id)sql";

std::string remove_artifact(Database& database, std::int64_t run, const std::string& name) {
  Statement update = database.prepare(
      "UPDATE artifacts SET removed = 1, content_bytes = 0, content = '' WHERE run = ? AND name = ? RETURNING id");
  std::string id;
  update.bind(run, name).next(id);
  return id;
}

}  // namespace

std::string upsert_artifact(Database& database, std::int64_t run, const Record& record) {
  const auto& artifact = std::get<ArtifactRecord>(record.body);
  if (artifact.removed) return remove_artifact(database, run, artifact.name);
  const std::string id = make_id('f'), content = artifact.content.is_null() ? "" : to_text(artifact.content);
  const std::string folder = moved_path(database, artifact.folder);
  Statement upsert = database.prepare(artifact_upsert);
  upsert.bind(id, run, record.header.attempt, record.header.rank, artifact.name, artifact.artifact, artifact.update,
              record.header.time_ms, folder, artifact.size, artifact.sha256, static_cast<std::int64_t>(content.size()),
              content);
  return upsert.value<std::string>();
}

std::vector<ArtifactRow> list_artifacts(Reader& reader, std::int64_t run, const ArtifactFilter& filter) {
  static const std::string sql = select<ArtifactRow>(
      "FROM artifacts a JOIN runs USING (run) WHERE a.run = ?1 AND (?2 = '' OR kind = ?2) AND (?3 OR NOT removed) AND "
      "(?5 = 0 OR (step, artifact) < (?4, ?5)) ORDER BY step DESC, artifact DESC LIMIT ?6");
  return reader.database.prepare(sql)
      .bind(run, filter.kind, filter.removed, filter.before.first, filter.before.second, filter.limit)
      .all<ArtifactRow>();
}

std::optional<ArtifactRow> find_artifact(Reader& reader, std::string_view id) {
  static const std::string sql = select<ArtifactRow>("FROM artifacts a JOIN runs USING (run) WHERE a.id = ?");
  return reader.database.prepare(sql).bind(id).first<ArtifactRow>();
}

std::string content_of_artifact(Reader& reader, std::string_view id) {
  return reader.database.prepare("SELECT content FROM artifacts WHERE id = ?").bind(id).value<std::string>();
}

}  // namespace babelring::store
