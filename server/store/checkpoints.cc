#include "server/store/checkpoints.h"

#include "server/store/runs.h"

namespace babelring::store {
namespace {

CheckpointRow checkpoint_of(const Statement& row) {
  CheckpointRow checkpoint;
  checkpoint.number = row.integer(0);
  checkpoint.id = row.text(1);
  checkpoint.run = row.text(2);
  checkpoint.name = row.text(3);
  checkpoint.step = row.integer(4);
  checkpoint.created_ms = row.integer(5);
  checkpoint.folder = row.text(6);
  checkpoint.files = row.text(7);
  checkpoint.sacrebleu = row.real(8);
  checkpoint.loss = row.real(9);
  checkpoint.best = row.integer(10) != 0;
  checkpoint.removed = row.integer(11) != 0;
  checkpoint.write_seconds = row.real(12);
  checkpoint.pinned = row.integer(13) != 0;
  checkpoint.version = row.text(14);
  checkpoint.world_size = row.integer(15);
  return checkpoint;
}

constexpr std::int64_t any = -1;

std::int64_t choice(std::optional<bool> wanted) {
  return wanted ? std::int64_t{*wanted} : any;
}

}  // namespace

std::vector<CheckpointRow> list_checkpoints(Reader& reader, std::int64_t run, const CheckpointFilter& filter) {
  // Two constant statements: SQL is never built from the request.
  constexpr std::string_view by_step =
      "SELECT checkpoint, c.id, runs.id, c.name, step, c.created_ms, folder, files, sacrebleu, loss, best, removed, "
      "write_seconds, pinned, c.version, c.world_size FROM checkpoints c JOIN runs USING (run) WHERE c.run = ?1 AND "
      "(?2 OR NOT removed) AND "
      "(?3 < 0 OR pinned = ?3) AND (?4 < 0 OR (NOT removed AND files <> '[]') = ?4) AND "
      "(?6 = 0 OR (step, checkpoint) < (?5, ?6)) ORDER BY step DESC, checkpoint DESC LIMIT ?7";
  constexpr std::string_view by_bleu =
      "SELECT checkpoint, c.id, runs.id, c.name, step, c.created_ms, folder, files, sacrebleu, loss, best, removed, "
      "write_seconds, pinned, c.version, c.world_size FROM checkpoints c JOIN runs USING (run) WHERE c.run = ?1 AND "
      "(?2 OR NOT removed) AND "
      "(?3 < 0 OR pinned = ?3) AND (?4 < 0 OR (NOT removed AND files <> '[]') = ?4) AND ?5 >= 0 AND "
      "(?6 = 0 OR (coalesce(sacrebleu, -1), checkpoint) < (SELECT coalesce(sacrebleu, -1), checkpoint FROM checkpoints "
      "WHERE checkpoint = ?6)) ORDER BY coalesce(sacrebleu, -1) DESC, checkpoint DESC LIMIT ?7";
  Statement rows = reader.database.prepare(filter.by_bleu ? by_bleu : by_step);
  rows.bind(run, filter.removed, choice(filter.pinned), choice(filter.complete), filter.before.first,
            filter.before.second, filter.limit);
  std::vector<CheckpointRow> checkpoints;
  while (rows.step()) checkpoints.push_back(checkpoint_of(rows));
  return checkpoints;
}

std::optional<CheckpointRow> find_checkpoint(Reader& reader, std::string_view id) {
  Statement row = reader.database.prepare(
      "SELECT checkpoint, c.id, runs.id, c.name, step, c.created_ms, folder, files, sacrebleu, loss, best, removed, "
      "write_seconds, pinned, c.version, c.world_size FROM checkpoints c JOIN runs USING (run) WHERE c.id = ?");
  row.bind(id);
  if (!row.step()) return std::nullopt;
  return checkpoint_of(row);
}

std::vector<CheckpointRow> newest_of_active_runs(Reader& reader, std::int64_t since_ms) {
  Statement rows = reader.database.prepare(
      "SELECT checkpoint, c.id, runs.id, c.name, step, c.created_ms, folder, files, sacrebleu, loss, best, removed, "
      "write_seconds, pinned, c.version, c.world_size FROM runs JOIN checkpoints c ON checkpoint = (SELECT "
      "n.checkpoint FROM checkpoints n "
      "WHERE n.run = runs.run AND NOT n.removed ORDER BY n.step DESC LIMIT 1) "
      "WHERE state IN ('launching', 'running', 'stopping', 'restarting', 'suspended') AND deleted_ms IS NULL "
      "AND runs.updated_ms > ?");
  rows.bind(since_ms);
  std::vector<CheckpointRow> checkpoints;
  while (rows.step()) checkpoints.push_back(checkpoint_of(rows));
  return checkpoints;
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
  Statement rows = reader.database.prepare(
      "SELECT checkpoint, c.id, runs.id, c.name, step, c.created_ms, folder, files, sacrebleu, loss, best, removed, "
      "write_seconds, pinned, c.version, c.world_size FROM checkpoints c JOIN runs USING (run) WHERE removing");
  std::vector<CheckpointRow> checkpoints;
  while (rows.step()) checkpoints.push_back(checkpoint_of(rows));
  return checkpoints;
}

std::vector<CheckpointRow> kept_checkpoints(Reader& reader) {
  Statement rows = reader.database.prepare(
      "SELECT checkpoint, c.id, runs.id, c.name, step, c.created_ms, folder, '[]', sacrebleu, loss, best, removed, "
      "write_seconds, pinned, c.version, c.world_size FROM checkpoints c JOIN runs USING (run) "
      "WHERE NOT removed AND files <> '[]'");
  std::vector<CheckpointRow> checkpoints;
  while (rows.step()) checkpoints.push_back(checkpoint_of(rows));
  return checkpoints;
}

void set_retention(Database& database, std::int64_t run, std::string_view policy,
                   std::optional<std::int64_t> max_log_bytes) {
  database
      .prepare(
          "INSERT OR REPLACE INTO retention(run, policy, max_log_bytes) VALUES (?, ?, CASE WHEN ?3 >= 0 THEN ?3 END)")
      .bind(run, policy, max_log_bytes.value_or(-1))
      .run();
}

std::string retention_of(Reader& reader, std::int64_t run) {
  Statement row = reader.database.prepare("SELECT policy FROM retention WHERE run = ?");
  row.bind(run);
  return row.step() ? row.text(0) : std::string();
}

std::vector<std::string> runs_with_retention(Reader& reader) {
  Statement rows = reader.database.prepare("SELECT runs.id FROM retention JOIN runs USING (run) ORDER BY run");
  std::vector<std::string> runs;
  while (rows.step()) runs.push_back(rows.text(0));
  return runs;
}

}  // namespace babelring::store
