#include "server/store/run_records.h"

#include <algorithm>

namespace babelring::store {

template <const_or_not<LifecycleRow> Row, class Column>
void visit_columns(Row& event, Column&& column) {
  column("attempt", event.attempt);
  column("rank", event.rank);
  column("time_ms", event.time_ms);
  column("name", event.name);
  column("detail", event.detail);
}

template <const_or_not<RunPlace> Row, class Column>
void visit_columns(Row& run, Column&& column) {
  column("r.run", run.number);
  column("id", run.id);
  column("coalesce(folder, '')", run.folder);
  column("coalesce((SELECT c.folder FROM checkpoints c WHERE c.run = r.run ORDER BY step DESC LIMIT 1), '')",
         run.checkpoint);
}

template <const_or_not<ReportedEval> Row, class Column>
void visit_columns(Row& eval, Column&& column) {
  column("attempt", eval.attempt);
  column("time_ms", eval.time_ms);
  column("body", eval.body);
}

std::vector<LifecycleRow> list_lifecycle(Reader& reader, std::int64_t run, std::int64_t limit) {
  static const std::string sql = select<LifecycleRow>(
      "FROM lifecycle WHERE run = ? AND (rank = 0 OR name = 'failed') ORDER BY attempt, time_ms, event LIMIT ?");
  return reader.database.prepare(sql).bind(run, limit).all<LifecycleRow>();
}

std::vector<RunPlace> places_of_runs(Reader& reader, std::int64_t since_ms) {
  static const std::string sql = select<RunPlace>(
      "FROM runs r LEFT JOIN launches l ON l.run = r.run WHERE deleted_ms IS NULL AND "
      "(state NOT IN ('queued', 'succeeded', 'failed', 'stopped') OR finished_ms >= ?) ORDER BY r.run");
  return reader.database.prepare(sql).bind(since_ms).all<RunPlace>();
}

std::vector<ReportedEval> list_reported_evals(Reader& reader, std::int64_t run, std::int64_t limit) {
  static const std::string sql = select<ReportedEval>("FROM evals WHERE run = ? ORDER BY eval DESC LIMIT ?");
  auto evals = reader.database.prepare(sql).bind(run, limit).all<ReportedEval>();
  std::ranges::reverse(evals);
  return evals;
}

std::string training_data_of(Reader& reader, std::int64_t run) {
  return reader.database.prepare("SELECT data FROM runs WHERE run = ?").bind(run).value<std::string>();
}

}  // namespace babelring::store
