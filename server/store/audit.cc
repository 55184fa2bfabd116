#include "server/store/audit.h"

#include <limits>

namespace babelring::store {

std::vector<AuditRow> list_audit(Reader& reader, const AuditFilter& filter) {
  auto query = reader.database.prepare(
      "SELECT entry, time_ms, actor, token, method, route, object, status, request, address FROM audit "
      "WHERE entry < ?1 AND (?2 = '' OR actor = ?2) ORDER BY entry DESC LIMIT ?3");
  query.bind(filter.before > 0 ? filter.before : std::numeric_limits<std::int64_t>::max(), filter.actor, filter.limit);
  std::vector<AuditRow> rows;
  while (query.step()) {
    rows.push_back({query.integer(0), query.integer(1), query.text(2), query.text(3), query.text(4), query.text(5),
                    query.text(6), static_cast<int>(query.integer(7)), query.text(8), query.text(9)});
  }
  return rows;
}

void append_audit(Database& writer, std::span<const AuditRow> rows, std::int64_t keep) {
  auto insert = writer.prepare(
      "INSERT INTO audit (time_ms, actor, token, method, route, object, status, request, address) "
      "VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)");
  for (const AuditRow& row : rows) {
    insert.bind(row.time_ms, row.actor, row.token, row.method, row.route, row.object, row.status, row.request,
                row.address);
    insert.run();
  }
  auto remove = writer.prepare("DELETE FROM audit WHERE entry <= (SELECT max(entry) FROM audit) - ?1");
  remove.bind(keep).run();
}

}  // namespace babelring::store
