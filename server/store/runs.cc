#include "server/store/runs.h"

#include <utility>

namespace babelring::store {

template <const_or_not<RunRow> Row, class Column>
void visit_columns(Row& run, Column&& column) {
  column("run", run.number);
  column("id", run.id);
  column("name", run.name);
  column("state", run.state);
  column("detail", run.detail);
  column("version", run.version);
  column("config", run.config);
  column("attempt", run.attempt);
  column("created_ms", run.created_ms);
  column("updated_ms", run.updated_ms);
  column("started_ms", run.started_ms);
  column("finished_ms", run.finished_ms);
  column("world_size", run.world_size);
  column("parameters", run.parameters);
  column("max_updates", run.max_updates);
  column("profile", run.profile);
  column("labels", run.labels);
  column("notes", run.notes);
  column("archived", run.archived);
  column("deleted_ms", run.deleted_ms);
  column("restarts", run.restarts);
  column("max_restarts", run.max_restarts);
  column("end_text", run.end);
  column("may_end_sooner", run.may_end_sooner);
  column("emulated", run.emulated);
  column("bucket_mb", run.bucket_mb);
  column("optimizer", run.optimizer);
  column(
      "coalesce((SELECT CASE WHEN record_ms > 0 THEN record_ms + runs.updated_ms - ranks.updated_ms "
      "ELSE runs.updated_ms END FROM ranks WHERE ranks.run = runs.run AND ranks.attempt = runs.attempt AND rank = 0), "
      "0)",
      run.reported_ms);
}

template <const_or_not<RunningRow> Row, class Column>
void visit_columns(Row& run, Column&& column) {
  column("id", run.run);
  column("attempt", run.attempt);
  column(
      "coalesce((SELECT max(last_update) FROM ranks WHERE ranks.run = runs.run AND ranks.attempt = runs.attempt), 0)",
      run.update);
  column("begun_by", run.begun_by);
  column("emulated", run.emulated);
}

namespace {

/// Runs with their launch, where they have one.
std::string select_runs(const std::string& rest) {
  return select<RunRow>("FROM runs LEFT JOIN launches USING (run) " + rest);
}

std::vector<std::string> hosts_of(Reader& reader, const RunRow& run) {
  return reader.database
      .prepare("SELECT host FROM ranks WHERE run = ? AND attempt = ? AND host <> '' GROUP BY host ORDER BY min(rank)")
      .bind(run.number, run.attempt)
      .all<std::string>();
}

/// The attempts of a run started by hand that were over before a newer one began and neither finished nor were stopped.
void find_faults(Reader& reader, RunRow& run) {
  if (run.attempt < 2) return;
  std::int64_t newest = 0;  // the attempt that the other columns are of
  reader.database
      .prepare(
          "SELECT count(*), coalesce(a.ended_ms, (SELECT min(n.started_ms) FROM attempts n WHERE n.run = a.run AND "
          "n.attempt > a.attempt), 0), outcome_detail, max(a.attempt) FROM attempts a "
          "WHERE a.run = ? AND a.attempt < ? AND outcome NOT IN ('finished', 'stopped')")
      .bind(run.number, run.attempt)
      .next(run.faults, run.restarted_ms, run.restart_cause, newest);
}

/// Restarts are counted anew when a user resumes the run.
void find_restart(Reader& reader, RunRow& run) {
  if (!run.restarts) return find_faults(reader, run);
  if (run.restarts.value_or(0) == 0) return;
  reader.database
      .prepare(
          "SELECT time_ms, cause FROM transitions WHERE run = ? AND new_state = 'restarting' "
          "ORDER BY transition DESC LIMIT 1")
      .bind(run.number)
      .next(run.restarted_ms, run.restart_cause);
}

void complete(Reader& reader, RunRow& run) {
  run.hosts = hosts_of(reader, run);
  run.last = last_step(reader, run.number, 0);
  find_restart(reader, run);
  RunEvals evals = find_run_evals(reader, run.number, run.id);
  run.last_eval = std::move(evals.newest);
  run.best_eval = std::move(evals.best);
}

/// A LIKE pattern in which % and _ of the user's text are literal.
std::string like_pattern(std::string_view text) {
  std::string pattern = "%";
  for (const char c : text) {
    if (c == '%' || c == '_' || c == '\\') pattern += '\\';
    pattern += c;
  }
  return pattern + '%';
}

}  // namespace

std::optional<RunRow> find_run(Reader& reader, std::string_view id) {
  static const std::string sql = select_runs("WHERE id = ?");
  auto run = reader.database.prepare(sql).bind(id).first<RunRow>();
  if (run) complete(reader, *run);
  return run;
}

std::vector<RunRow> list_runs(Reader& reader, const RunFilter& filter) {
  // One constant statement per order: SQL is never built from the request.
  static const std::string chosen = select_runs(R"sql(
    WHERE deleted_ms IS NULL AND (?3 = '' OR instr(?3, ',' || state || ','))
      AND (?4 = '%%' OR name LIKE ?4 ESCAPE '\' OR id LIKE ?4 ESCAPE '\')
      AND created_ms > ?5 AND updated_ms > ?11 AND (?6 IS NULL OR archived = ?6)
      AND (?7 = '' OR EXISTS (SELECT 1 FROM json_each(labels) WHERE key = ?7 AND (NOT ?8 OR value = ?9))) AND )sql");
  static const std::string newest_first = chosen + "(?1 = 0 OR run < ?1) AND ?2 = 0 ORDER BY run DESC LIMIT ?10";
  static const std::string oldest_first = chosen + "run > ?1 AND ?2 = 0 ORDER BY run LIMIT ?10";
  static const std::string last_changed =
      chosen + "(?1 = 0 OR (updated_ms, run) < (?1, ?2)) ORDER BY updated_ms DESC, run DESC LIMIT ?10";
  using Order = RunFilter::Order;
  std::string states;  // ",running,stopping,"
  for (const RunState state : filter.states) states.append(states.empty() ? "," : "").append(name_of(state)) += ',';
  const std::string& sql = filter.order == Order::newest_first   ? newest_first
                           : filter.order == Order::oldest_first ? oldest_first
                                                                 : last_changed;
  auto runs = reader.database.prepare(sql)
                  .bind(filter.after.first, filter.after.second, states, like_pattern(filter.text),
                        filter.created_after_ms, filter.archived, filter.label_name, filter.label_has_value,
                        filter.label_value, filter.limit, filter.updated_after_ms)
                  .all<RunRow>();
  for (RunRow& run : runs) complete(reader, run);
  return runs;
}

std::vector<std::pair<RunState, std::int64_t>> count_runs(Reader& reader) {
  Statement rows = reader.database.prepare("SELECT state, count(*) FROM runs GROUP BY state");
  std::vector<std::pair<RunState, std::int64_t>> counts;
  RunState state{};
  std::int64_t runs = 0;
  while (rows.next(state, runs)) counts.emplace_back(state, runs);
  return counts;
}

std::vector<RunningRow> list_running(Reader& reader) {
  static const std::string sql = select<RunningRow>("FROM runs WHERE state = 'running' ORDER BY run");
  return reader.database.prepare(sql).all<RunningRow>();
}

}  // namespace babelring::store
