#include "server/store/control.h"

namespace babelring::store {
namespace {

std::optional<std::int64_t> integer_or_nothing(const Statement& row, int column) {
  if (row.is_null(column)) return std::nullopt;
  return row.integer(column);
}

constexpr std::string_view launch_columns =
    "SELECT r.run, r.id, r.name, r.profile, folder, launch_config, state, r.attempt, launch_ranks, max_restarts, "
    "restarts, resume_folder, resume_step, place, stop_wish, stop_grace_s, coalesce(launcher, ''), coalesce(pid, 0), "
    "coalesce(start_ticks, 0), coalesce(job, ''), coalesce(outcome, ''), coalesce(outcome_detail, ''), "
    "(SELECT coalesce(max(step), 0) FROM checkpoints c WHERE c.run = r.run AND NOT removed) "
    "FROM runs r LEFT JOIN launches l ON l.run = r.run LEFT JOIN attempts a ON a.run = r.run AND a.attempt = r.attempt "
    "WHERE deleted_ms IS NULL AND ";

std::vector<LaunchRow> read_launches(Statement rows) {
  std::vector<LaunchRow> launches;
  while (rows.step()) {
    LaunchRow run;
    run.number = rows.integer(0);
    run.id = rows.text(1);
    run.name = rows.text(2);
    run.profile = rows.text(3);
    run.folder = rows.text(4);
    run.config = rows.text(5);
    run.state = run_state_of(rows.text(6)).value_or(RunState::lost);
    run.attempt = rows.integer(7);
    run.world_size = rows.integer(8);
    run.max_restarts = rows.integer(9);
    run.restarts = rows.integer(10);
    run.resume_folder = rows.text(11);
    run.resume_step = rows.integer(12);
    run.place = rows.integer(13);
    run.stop_wish = rows.text(14);
    run.stop_grace_s = rows.integer(15);
    run.launcher = rows.text(16);
    run.handle = {rows.integer(17), rows.integer(18), rows.text(19)};
    run.outcome = rows.text(20);
    run.outcome_detail = rows.text(21);
    run.newest_checkpoint_step = rows.integer(22);
    launches.push_back(std::move(run));
  }
  return launches;
}

}  // namespace

std::vector<LaunchRow> active_launches(Reader& reader) {
  static const std::string query = std::string(launch_columns) +
                                   "l.run IS NOT NULL AND state IN ('queued', 'launching', 'running', 'stopping', "
                                   "'restarting', 'suspended', 'lost') "
                                   "AND (coalesce(launcher, '') <> 'external' OR state = 'queued') ORDER BY place";
  return read_launches(reader.database.prepare(query));
}

std::vector<LaunchRow> ending_externals(Reader& reader) {
  static const std::string query =
      std::string(launch_columns) + "state IN ('stopping', 'lost') AND launcher = 'external'";
  return read_launches(reader.database.prepare(query));
}

std::pair<std::string, std::string> find_outcome(Reader& reader, std::int64_t run, std::int64_t attempt) {
  Statement row = reader.database.prepare("SELECT outcome, outcome_detail FROM attempts WHERE run = ? AND attempt = ?");
  row.bind(run, attempt);
  if (!row.step()) return {};
  return {row.text(0), row.text(1)};
}

std::int64_t count_queued(Reader& reader) {
  Statement row = reader.database.prepare("SELECT count(*) FROM runs WHERE state = 'queued'");
  row.step();
  return row.integer(0);
}

std::optional<CommandRow> find_commands(Database& database, const std::string& run, std::int64_t attempt) {
  Statement row = database.prepare(
      "SELECT r.run, r.attempt, state, coalesce(a.fenced, 0), stop_wish, checkpoint_wish, name, begun_by, "
      "l.run IS NOT NULL AND coalesce(c.launcher, '') <> 'external', coalesce(a.world_size, 0), created_ms FROM runs r "
      "LEFT JOIN attempts a ON a.run = r.run AND a.attempt = ?2 "
      "LEFT JOIN attempts c ON c.run = r.run AND c.attempt = r.attempt "
      "LEFT JOIN launches l ON l.run = r.run WHERE id = ?1");
  row.bind(run, attempt);
  if (!row.step()) return std::nullopt;
  CommandRow found;
  found.number = row.integer(0);
  found.attempt = row.integer(1);
  found.state = run_state_of(row.text(2)).value_or(RunState::lost);
  found.fenced = row.integer(3) != 0 || attempt < found.attempt;
  found.stop_wish = row.text(4);
  found.checkpoint_wish = row.integer(5);
  found.name = row.text(6);
  found.begun_by = row.text(7);
  found.managed = row.integer(8) != 0;
  found.ranks = row.integer(9);
  found.created_ms = row.integer(10);
  return found;
}

std::vector<TransitionRow> list_transitions(Reader& reader, std::int64_t run, std::int64_t after, std::int64_t limit) {
  Statement rows = reader.database.prepare(
      "SELECT transition, attempt, time_ms, old_state, new_state, event, cause, actor FROM transitions "
      "WHERE run = ? AND transition > ? ORDER BY transition LIMIT ?");
  rows.bind(run, after, limit);
  std::vector<TransitionRow> transitions;
  while (rows.step()) {
    transitions.push_back({rows.integer(0), rows.integer(1), rows.integer(2), rows.text(3), rows.text(4), rows.text(5),
                           rows.text(6), rows.text(7)});
  }
  return transitions;
}

std::vector<AttemptRow> list_attempts(Reader& reader, std::int64_t run) {
  Statement rows = reader.database.prepare(
      "SELECT attempt, launcher, job, resumed_from, cause, outcome, pid, world_size, started_ms, ended_ms, exit_code "
      "FROM attempts WHERE run = ? ORDER BY attempt");
  rows.bind(run);
  std::vector<AttemptRow> attempts;
  while (rows.step()) {
    attempts.push_back({rows.integer(0), rows.text(1), rows.text(2), rows.text(3), rows.text(4), rows.text(5),
                        rows.integer(6), rows.integer(7), rows.integer(8), integer_or_nothing(rows, 9),
                        integer_or_nothing(rows, 10)});
  }
  return attempts;
}

std::string folder_of(Reader& reader, std::int64_t run) {
  Statement row = reader.database.prepare("SELECT folder FROM launches WHERE run = ?");
  row.bind(run);
  return row.step() ? row.text(0) : "";
}

std::vector<RunToPurge> runs_to_purge(Reader& reader, std::int64_t before_ms) {
  Statement rows = reader.database.prepare(
      "SELECT run, id, coalesce(folder, ''), delete_checkpoints FROM runs LEFT JOIN launches USING (run) "
      "WHERE deleted_ms < ? LIMIT 100");
  rows.bind(before_ms);
  std::vector<RunToPurge> doomed;
  while (rows.step()) doomed.push_back({rows.integer(0), rows.text(1), rows.text(2), rows.integer(3) != 0});
  return doomed;
}

}  // namespace babelring::store
