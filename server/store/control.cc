#include "server/store/control.h"

#include <fmt/format.h>

namespace babelring::store {

template <const_or_not<TraceRequestRow> Row, class Column>
void visit_columns(Row& request, Column&& column) {
  column("t.number", request.number);
  column("t.updates", request.updates);
  column("t.ops", request.ops);
}

TraceRequestRow find_trace_request(Reader& reader, std::int64_t run) {
  static const std::string sql = select<TraceRequestRow>(
      "FROM trace_requests t JOIN runs r ON r.run = t.run AND r.attempt = t.attempt WHERE t.run = ?");
  const auto found = reader.database.prepare(sql).bind(run).all<TraceRequestRow>();
  return found.empty() ? TraceRequestRow() : found.front();
}

std::optional<std::int64_t> request_trace(Database& database, std::int64_t run, const TraceRequestRow& request,
                                          std::int64_t done) {
  Statement insert = database.prepare(
      "INSERT INTO trace_requests(run, attempt, number, updates, ops) "
      "SELECT run, attempt, 1, ?2, ?3 FROM runs WHERE run = ?1 "
      "ON CONFLICT(run) DO UPDATE SET attempt = excluded.attempt, updates = excluded.updates, ops = excluded.ops, "
      "number = CASE WHEN attempt = excluded.attempt THEN number + 1 ELSE 1 END "
      "WHERE attempt <> excluded.attempt OR number <= ?4 RETURNING number");
  std::int64_t number = 0;
  if (!insert.bind(run, request.updates, request.ops, done).next(number)) return std::nullopt;
  return number;
}

template <const_or_not<TransitionRow> Row, class Column>
void visit_columns(Row& transition, Column&& column) {
  column("transition", transition.number);
  column("attempt", transition.attempt);
  column("time_ms", transition.time_ms);
  column("old_state", transition.old_state);
  column("new_state", transition.new_state);
  column("event", transition.event);
  column("cause", transition.cause);
  column("actor", transition.actor);
}

template <const_or_not<RunToPurge> Row, class Column>
void visit_columns(Row& run, Column&& column) {
  column("run", run.number);
  column("id", run.id);
  column("folder", run.folder);
  column("delete_checkpoints", run.checkpoints_too);
}

namespace {

void write_history(Database& database, const RunStanding& run, std::string_view before, RunState after,
                   const StateChange& change, std::int64_t at_ms) {
  database
      .prepare(
          "INSERT INTO transitions(run, attempt, old_state, new_state, event, cause, actor, time_ms) "
          "VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, "
          "max(?8, coalesce((SELECT time_ms FROM transitions WHERE run = ?1 ORDER BY transition DESC LIMIT 1), 0)))")
      .bind(run.number, run.attempt, before, name_of(after), name_of(change.event), change.cause, change.actor, at_ms)
      .run();
}

}  // namespace

std::optional<RunStanding> find_standing(Database& database, const std::string& run) {
  Statement row = database.prepare("SELECT run, attempt, state, stop_wish <> '' FROM runs WHERE id = ?");
  RunStanding found;
  if (!row.bind(run).next(found.number, found.attempt, found.state, found.asked_to_stop)) return std::nullopt;
  return found;
}

void create_run(Database& database, const NewRun& run, std::int64_t now_ms) {
  Statement insert = database.prepare(
      "INSERT INTO runs(id, name, state, attempt, created_ms, updated_ms, started_ms, config, world_size, profile, "
      "labels, notes) VALUES (?1, ?2, 'queued', 0, ?3, ?3, ?3, ?4, ?5, ?6, ?7, ?8) RETURNING run");
  insert.bind(run.id, run.name, now_ms, run.config, run.world_size, run.profile, run.labels, run.notes);
  const auto number = insert.value<std::int64_t>();
  database
      .prepare(
          "INSERT INTO launches(run, folder, launch_config, launch_ranks, max_restarts, resume_folder, resume_step, "
          "place) VALUES (?, ?, ?, ?, ?, ?, ?, (SELECT coalesce(max(place), 0) + 1 FROM launches))")
      .bind(number, run.folder, run.config, run.world_size, run.max_restarts, run.resume_folder, run.resume_step)
      .run();
  write_history(database, {number, 0, RunState::queued}, "", RunState::queued,
                {run.id, RunEvent::resume_requested, "submitted", run.actor}, now_ms);
}

std::optional<RunState> change_state(Database& database, const StateChange& change, std::int64_t at_ms) {
  const auto run = find_standing(database, change.run);
  if (!run) return std::nullopt;
  auto after = next_state(run->state, change.event);
  // Keep the stop request of a lost run, so that it stops if it is found again.
  if (run->state == RunState::lost && change.event == RunEvent::reported && run->asked_to_stop) {
    after = RunState::stopping;
  }
  if (change.event == RunEvent::evaluation_failed)
    write_history(database, *run, name_of(run->state), run->state, change, at_ms);
  // An attempt that follows another one is news, even if nobody had noticed the other's end.
  const bool follows = change.event == RunEvent::newer_attempt && run->attempt > 1;
  if (!after || (*after == run->state && !follows)) return after;
  const bool over = is_terminal(*after);
  const std::string detail = *after == RunState::running ? "" : change.cause;
  database
      .prepare(
          "UPDATE runs SET state = ?1, detail = ?2, finished_ms = CASE WHEN ?3 THEN max(?4, coalesce(started_ms, 0)) "
          "END, "
          "stop_wish = CASE WHEN ?1 IN ('stopping', 'lost') THEN stop_wish ELSE '' END WHERE run = ?5")
      .bind(name_of(*after), detail, over, change.ended_ms.value_or(at_ms), run->number)
      .run();
  write_history(database, *run, name_of(run->state), *after, change, at_ms);
  return after;
}

std::optional<RunState> request_stop(Database& database, const std::string& run, StopMode mode, std::int64_t grace_s,
                                     const std::string& actor, std::int64_t now_ms) {
  const std::string cause = mode == StopMode::now ? "asked to stop now" : "asked to stop with a checkpoint";
  StateChange change{run, RunEvent::stop_requested, cause, actor};
  if (const auto found = find_standing(database, run)) {
    change.ended_ms = on_clock_of_records(database, found->number, found->attempt, now_ms);
  }
  const auto after = change_state(database, change, now_ms);
  if (after != RunState::stopping) return after;
  database.prepare("UPDATE runs SET stop_wish = ?, stop_grace_s = ? WHERE id = ?").bind(mode, grace_s, run).run();
  return after;
}

std::optional<RunState> request_resume(Database& database, const Resume& resume, std::int64_t now_ms) {
  const auto run = find_standing(database, resume.run);
  if (!run || !next_state(run->state, RunEvent::resume_requested)) return std::nullopt;
  database
      .prepare(
          "UPDATE launches SET restarts = 0, resume_folder = ?1, resume_step = ?2, "
          "launch_ranks = coalesce(?3, launch_ranks), "
          "place = (SELECT max(place) + 1 FROM launches) WHERE run = ?4")
      .bind(resume.folder, resume.step, resume.world_size, run->number)
      .run();
  if (!resume.folder.empty()) {  // discard later checkpoints
    database.prepare("UPDATE checkpoints SET removed = 1 WHERE run = ? AND step > ?")
        .bind(run->number, resume.step)
        .run();
  }
  if (resume.world_size) {
    database.prepare("UPDATE runs SET world_size = ? WHERE run = ?").bind(*resume.world_size, run->number).run();
  }
  const std::string cause = resume.folder.empty() ? "resumed from the newest checkpoint"
                                                  : fmt::format("resumed after update {}", resume.step);
  return change_state(database, {resume.run, RunEvent::resume_requested, cause, resume.actor}, now_ms);
}

std::int64_t request_checkpoint(Database& database, const std::string& run) {
  Statement update =
      database.prepare("UPDATE runs SET checkpoint_wish = checkpoint_wish + 1 WHERE id = ? RETURNING checkpoint_wish");
  return update.bind(run).value<std::int64_t>();
}

void edit_run(Database& database, const std::string& run, const RunEdit& edit, std::int64_t now_ms) {
  const auto set_text = [&](std::string_view sql, const std::optional<std::string>& value) {
    if (value) database.prepare(sql).bind(*value, run).run();
  };
  set_text("UPDATE runs SET name = ? WHERE id = ?", edit.name);
  set_text("UPDATE runs SET labels = ? WHERE id = ?", edit.labels);
  set_text("UPDATE runs SET notes = ? WHERE id = ?", edit.notes);
  if (edit.archived) database.prepare("UPDATE runs SET archived = ? WHERE id = ?").bind(*edit.archived, run).run();
  if (edit.deleted) {
    database.prepare("UPDATE runs SET deleted_ms = CASE WHEN ? THEN ? END WHERE id = ?")
        .bind(*edit.deleted, now_ms, run)
        .run();
  }
  if (edit.max_restarts) {
    database.prepare("UPDATE launches SET max_restarts = ? WHERE run = (SELECT run FROM runs WHERE id = ?)")
        .bind(*edit.max_restarts, run)
        .run();
  }
}

void delete_run(Database& database, const std::string& run, bool checkpoints_too, std::int64_t now_ms) {
  database.prepare("UPDATE runs SET deleted_ms = ?, delete_checkpoints = ? WHERE id = ?")
      .bind(now_ms, checkpoints_too, run)
      .run();
}

void purge_run(Database& database, std::int64_t run) {
  database.prepare("INSERT OR IGNORE INTO purged_runs SELECT id FROM runs WHERE run = ?").bind(run).run();
  database.prepare("DELETE FROM alerts WHERE run = (SELECT id FROM runs WHERE run = ?)").bind(run).run();
  // All tables with a run column, including those of later migrations.
  const auto tables = database
                          .prepare(
                              "SELECT m.name FROM sqlite_master m JOIN pragma_table_info(m.name) c "
                              "WHERE m.type = 'table' AND c.name = 'run' AND c.type = 'INTEGER' AND m.name <> 'runs'")
                          .all<std::string>();
  for (const std::string& table : tables) database.execute(fmt::format("DELETE FROM {} WHERE run = {}", table, run));
  database.prepare("DELETE FROM runs WHERE run = ?").bind(run).run();
}

std::int64_t count_queued(Reader& reader) {
  return reader.database.prepare("SELECT count(*) FROM runs WHERE state = 'queued'").value<std::int64_t>();
}

std::vector<TransitionRow> list_transitions(Reader& reader, std::int64_t run, std::int64_t after, std::int64_t limit) {
  static const std::string sql =
      select<TransitionRow>("FROM transitions WHERE run = ? AND transition > ? ORDER BY transition LIMIT ?");
  return reader.database.prepare(sql).bind(run, after, limit).all<TransitionRow>();
}

std::vector<RunToPurge> runs_to_purge(Reader& reader, std::int64_t before_ms) {
  static const std::string sql =
      select<RunToPurge>("FROM runs LEFT JOIN launches USING (run) WHERE deleted_ms < ? LIMIT 100");
  return reader.database.prepare(sql).bind(before_ms).all<RunToPurge>();
}

}  // namespace babelring::store
