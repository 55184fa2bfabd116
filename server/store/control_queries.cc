#include "server/store/control.h"

namespace babelring::store {

template <same_row<LaunchRow> Row, class Column>
void visit_columns(Row& run, Column&& column) {
  column("r.run", run.number);
  column("r.id", run.id);
  column("r.name", run.name);
  column("r.profile", run.profile);
  column("folder", run.folder);
  column("launch_config", run.config);
  column("state", run.state);
  column("r.attempt", run.attempt);
  column("launch_ranks", run.world_size);
  column("max_restarts", run.max_restarts);
  column("restarts", run.restarts);
  column("resume_folder", run.resume_folder);
  column("resume_step", run.resume_step);
  column("place", run.place);
  column("stop_wish", run.stop_mode);
  column("stop_grace_s", run.stop_grace_s);
  column("launcher", run.launcher);
  column("pid", run.handle.pid);
  column("start_ticks", run.handle.start_ticks);
  column("job", run.handle.job);
  column("outcome", run.outcome);
  column("outcome_detail", run.outcome_detail);
  column("(SELECT coalesce(max(step), 0) FROM checkpoints c WHERE c.run = r.run AND NOT removed)",
         run.newest_checkpoint_step);
}

template <same_row<CommandRow> Row, class Column>
void visit_columns(Row& run, Column&& column) {
  column("r.run", run.number);
  column("r.attempt", run.attempt);
  column("state", run.state);
  column("coalesce(a.fenced, 0) OR ?2 < r.attempt", run.fenced);
  column("stop_wish", run.stop_mode);
  column("checkpoint_wish", run.checkpoints_requested);
  column("name", run.name);
  column("begun_by", run.begun_by);
  column("l.run IS NOT NULL AND coalesce(c.launcher, '') <> 'external'", run.managed);
  column("a.world_size", run.ranks);
  column("created_ms", run.created_ms);
}

template <same_row<TransitionRow> Row, class Column>
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

template <same_row<AttemptRow> Row, class Column>
void visit_columns(Row& attempt, Column&& column) {
  column("attempt", attempt.attempt);
  column("launcher", attempt.launcher);
  column("job", attempt.job);
  column("resumed_from", attempt.resumed_from);
  column("cause", attempt.cause);
  column("pid", attempt.pid);
  column("world_size", attempt.world_size);
  column("started_ms", attempt.started_ms);
  column("ended_ms", attempt.ended_ms);
  column("exit_code", attempt.exit_code);
}

template <same_row<RunToPurge> Row, class Column>
void visit_columns(Row& run, Column&& column) {
  column("run", run.number);
  column("id", run.id);
  column("folder", run.folder);
  column("delete_checkpoints", run.checkpoints_too);
}

namespace {

/// Runs with their launch and their current attempt, where they have them.
std::string select_launches(const std::string& where) {
  return select<LaunchRow>(
             "FROM runs r LEFT JOIN launches l ON l.run = r.run "
             "LEFT JOIN attempts a ON a.run = r.run AND a.attempt = r.attempt WHERE deleted_ms IS NULL AND ") +
         where;
}

}  // namespace

std::vector<LaunchRow> active_launches(Reader& reader) {
  static const std::string sql = select_launches(
      "l.run IS NOT NULL AND state IN ('queued', 'launching', 'running', 'stopping', 'restarting', 'suspended', "
      "'lost') "
      "AND (coalesce(launcher, '') <> 'external' OR state = 'queued') ORDER BY place");
  return reader.database.prepare(sql).all<LaunchRow>();
}

std::vector<LaunchRow> ending_externals(Reader& reader) {
  static const std::string sql = select_launches("state IN ('stopping', 'lost') AND launcher = 'external'");
  return reader.database.prepare(sql).all<LaunchRow>();
}

std::pair<Outcome, std::string> find_outcome(Reader& reader, std::int64_t run, std::int64_t attempt) {
  std::pair<Outcome, std::string> found;
  reader.database.prepare("SELECT outcome, outcome_detail FROM attempts WHERE run = ? AND attempt = ?")
      .bind(run, attempt)
      .next(found.first, found.second);
  return found;
}

std::int64_t count_queued(Reader& reader) {
  return reader.database.prepare("SELECT count(*) FROM runs WHERE state = 'queued'").value<std::int64_t>();
}

std::optional<CommandRow> find_commands(Database& database, const std::string& run, std::int64_t attempt) {
  static const std::string sql = select<CommandRow>(
      "FROM runs r LEFT JOIN attempts a ON a.run = r.run AND a.attempt = ?2 "
      "LEFT JOIN attempts c ON c.run = r.run AND c.attempt = r.attempt "
      "LEFT JOIN launches l ON l.run = r.run WHERE id = ?1");
  return database.prepare(sql).bind(run, attempt).first<CommandRow>();
}

std::vector<TransitionRow> list_transitions(Reader& reader, std::int64_t run, std::int64_t after, std::int64_t limit) {
  static const std::string sql =
      select<TransitionRow>("FROM transitions WHERE run = ? AND transition > ? ORDER BY transition LIMIT ?");
  return reader.database.prepare(sql).bind(run, after, limit).all<TransitionRow>();
}

std::vector<AttemptRow> list_attempts(Reader& reader, std::int64_t run) {
  static const std::string sql = select<AttemptRow>("FROM attempts WHERE run = ? ORDER BY attempt");
  return reader.database.prepare(sql).bind(run).all<AttemptRow>();
}

std::string folder_of(Reader& reader, std::int64_t run) {
  return reader.database.prepare("SELECT folder FROM launches WHERE run = ?").bind(run).value<std::string>();
}

std::vector<RunToPurge> runs_to_purge(Reader& reader, std::int64_t before_ms) {
  static const std::string sql =
      select<RunToPurge>("FROM runs LEFT JOIN launches USING (run) WHERE deleted_ms < ? LIMIT 100");
  return reader.database.prepare(sql).bind(before_ms).all<RunToPurge>();
}

}  // namespace babelring::store
