#include "server/store/checkpoints.h"

#include <cmath>

#include "base/json.h"
#include "base/names.h"
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

template <const_or_not<CheckpointRow> Row, class Column>
void visit_columns(Row& checkpoint, Column&& column) {
  column.key("checkpoint", checkpoint.number);
  column("c.id", checkpoint.id);
  column("runs.id", checkpoint.run);
  column("c.name", checkpoint.name);
  column("step", checkpoint.step);
  column("c.created_ms", checkpoint.created_ms);
  column("folder", checkpoint.folder);
  column("files", checkpoint.files);
  column("sacrebleu", checkpoint.sacrebleu);
  column("loss", checkpoint.loss);
  column("best", checkpoint.best);
  column("removed", checkpoint.removed);
  column("write_seconds", checkpoint.write_seconds);
  column("pinned", checkpoint.pinned);
  column("c.version", checkpoint.version);
  column("c.world_size", checkpoint.world_size);
}

namespace {

/// A removal record may omit the file list; the stored list is kept then. Different files, or files after a removal,
/// mean a new checkpoint with the same name.
constexpr std::string_view checkpoint_upsert = R"sql(
  INSERT INTO checkpoints(id, run, name, step, created_ms, folder, files, sacrebleu, loss, best, removed,
                          write_seconds, version, world_size)
  VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
  ON CONFLICT(run, name) DO UPDATE SET
    step = excluded.step,
    removed = excluded.removed,
    removing = 0,
    created_ms = iif(NOT excluded.removed AND excluded.files <> '[]' AND (removed OR files <> excluded.files),
                     excluded.created_ms, created_ms),
    write_seconds = iif(NOT excluded.removed AND excluded.files <> '[]' AND (removed OR files <> excluded.files),
                        excluded.write_seconds, write_seconds),
    version = coalesce(nullif(excluded.version, ''), version),
    world_size = coalesce(nullif(excluded.world_size, 0), world_size),
    best = iif(excluded.removed, best, excluded.best),
    files = iif(excluded.files = '[]', files, excluded.files),
    folder = iif(excluded.folder = '', folder, excluded.folder),
    sacrebleu = coalesce(excluded.sacrebleu, sacrebleu),
    loss = coalesce(excluded.loss, loss)
  RETURNING id)sql";

/// "SELECT … FROM checkpoints c JOIN runs …".
std::string select_checkpoints(const std::string& rest) {
  return select<CheckpointRow>("FROM checkpoints c JOIN runs USING (run) " + rest);
}

}  // namespace

std::string upsert_checkpoint(Database& database, std::int64_t run, const Record& record) {
  const auto& checkpoint = std::get<CheckpointRecord>(record.body);
  json::array files;
  for (const CheckpointFile& file : checkpoint.files) {
    files.push_back({{"name", file.name}, {"size", file.size}, {"sha256", file.sha256}});
  }
  const bool best = checkpoint.best && std::isfinite(checkpoint.loss);  // older workers did not check this
  if (best) {
    database.prepare("UPDATE checkpoints SET best = 0 WHERE run = ? AND best = 1").bind(run).run();
  }
  Statement upsert = database.prepare(checkpoint_upsert);
  const std::string id = make_id('c'), files_text = to_text(files), folder = moved_path(database, checkpoint.folder);
  upsert.bind(id, run, checkpoint.name, checkpoint.update, record.header.time_ms, folder, files_text,
              checkpoint.sacrebleu, checkpoint.loss, best, checkpoint.removed, checkpoint.write_seconds,
              checkpoint.version, checkpoint.world_size);
  return upsert.value<std::string>();
}

std::vector<CheckpointRow> list_checkpoints(Reader& reader, std::int64_t run, const CheckpointFilter& filter) {
  // Two constant statements: SQL is never built from the request.
  static const std::string chosen = select_checkpoints(
      "WHERE c.run = ?1 AND (?2 OR NOT removed) AND (?3 IS NULL OR pinned = ?3) AND "
      "(?4 IS NULL OR (NOT removed AND files <> '[]') = ?4) AND ");
  static const std::string by_step =
      chosen + "(?6 = 0 OR (step, checkpoint) < (?5, ?6)) ORDER BY step DESC, checkpoint DESC LIMIT ?7";
  static const std::string by_bleu =
      chosen +
      "?5 >= 0 AND (?6 = 0 OR (coalesce(sacrebleu, -1), checkpoint) < "
      "(SELECT coalesce(sacrebleu, -1), checkpoint FROM checkpoints WHERE checkpoint = ?6)) "
      "ORDER BY coalesce(sacrebleu, -1) DESC, checkpoint DESC LIMIT ?7";
  return reader.database.prepare(filter.by_bleu ? by_bleu : by_step)
      .bind(run, filter.removed, filter.pinned, filter.complete, filter.before.first, filter.before.second,
            filter.limit)
      .all<CheckpointRow>();
}

std::optional<CheckpointRow> find_checkpoint(Reader& reader, std::string_view id) {
  static const std::string sql = select_checkpoints("WHERE c.id = ?");
  return reader.database.prepare(sql).bind(id).first<CheckpointRow>();
}

std::vector<CheckpointRow> newest_of_active_runs(Reader& reader, std::int64_t since_ms) {
  static const std::string sql = select<CheckpointRow>(
      "FROM runs JOIN checkpoints c ON checkpoint = (SELECT n.checkpoint FROM checkpoints n "
      "WHERE n.run = runs.run AND NOT n.removed ORDER BY n.step DESC LIMIT 1) "
      "WHERE state IN ('launching', 'running', 'stopping', 'restarting', 'suspended') AND deleted_ms IS NULL "
      "AND runs.updated_ms > ?");
  return reader.database.prepare(sql).bind(since_ms).all<CheckpointRow>();
}

bool set_pinned(Database& database, std::string_view id, bool pinned) {
  Statement update =
      database.prepare("UPDATE checkpoints SET pinned = ?1 WHERE id = ?2 AND pinned <> ?1 AND NOT removed RETURNING 1");
  update.bind(pinned, id);
  return update.step();
}

void begin_removal(Database& database, std::string_view id) {
  database.prepare("UPDATE checkpoints SET removed = 1, pinned = 0, removing = 1 WHERE id = ?").bind(id).run();
}

void end_removal(Database& database, std::string_view id, bool removed) {
  database.prepare("UPDATE checkpoints SET removing = 0, removed = ? WHERE id = ? AND removing")
      .bind(removed, id)
      .run();
}

std::vector<CheckpointRow> begun_removals(Reader& reader) {
  static const std::string sql = select_checkpoints("WHERE removing");
  return reader.database.prepare(sql).all<CheckpointRow>();
}

std::vector<CheckpointRow> kept_checkpoints(Reader& reader) {
  static const std::string sql = [] {
    std::string text = select_checkpoints("WHERE NOT removed AND files <> '[]'");
    return text.replace(text.find(" files,"), 7, " '[]',");  // the lists are long
  }();
  return reader.database.prepare(sql).all<CheckpointRow>();
}

void set_retention(Database& database, std::int64_t run, std::string_view policy,
                   std::optional<std::int64_t> max_log_bytes) {
  database.prepare("INSERT OR REPLACE INTO retention(run, policy, max_log_bytes) VALUES (?, ?, ?)")
      .bind(run, policy, max_log_bytes)
      .run();
}

std::string retention_of(Reader& reader, std::int64_t run) {
  return reader.database.prepare("SELECT policy FROM retention WHERE run = ?").bind(run).value<std::string>();
}

std::vector<std::string> runs_with_retention(Reader& reader) {
  return reader.database.prepare("SELECT runs.id FROM retention JOIN runs USING (run) ORDER BY run").all<std::string>();
}

}  // namespace babelring::store
