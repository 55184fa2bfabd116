#include "server/store/trace_requests.h"

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

}  // namespace babelring::store
