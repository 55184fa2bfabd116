#include "server/store/audit.h"

#include <sqlite3.h>

#include <algorithm>

namespace babelring::store {

template <same_row<AuditRow> Row, class Column>
void visit_columns(Row& entry, Column&& column) {
  column.key("entry", entry.number);
  column("time_ms", entry.time_ms);
  column("last_ms", entry.last_ms);
  column("count", entry.count);
  column("kept_by_age", entry.kept_by_age);
  column("actor", entry.actor);
  column("token", entry.token);
  column("method", entry.method);
  column("route", entry.route);
  column("object", entry.object);
  column("status", entry.status);
  column("request", entry.request);
  column("address", entry.address);
}

namespace {

constexpr const char* matching_audit_rows = R"sql(
  FROM audit WHERE entry > ?1 AND entry < ?2 AND last_ms >= ?3 AND time_ms < ?4 AND status BETWEEN ?5 AND ?6
    AND (?7 = '' OR actor = ?7) AND (?8 = '' OR token = ?8) AND (?9 = '' OR route = ?9)
    AND (?10 = '' OR object = ?10 OR substr(object, 1, length(?10) + 1) = ?10 || '/')
  ORDER BY entry )sql";

}  // namespace

std::vector<AuditRow> list_audit(Reader& reader, const AuditFilter& filter) {
  static const std::string matching = select<AuditRow>(matching_audit_rows);
  static const std::string newest_first = matching + "DESC LIMIT ?11", oldest_first = matching + "ASC LIMIT ?11";
  return reader.database.prepare(filter.oldest_first ? oldest_first : newest_first)
      .bind(filter.after, filter.before, filter.from_ms, filter.to_ms, filter.lowest_status, filter.highest_status,
            filter.actor, filter.token, filter.route, filter.object, filter.limit)
      .all<AuditRow>();
}

std::int64_t append_audit(Database& writer, AuditRow row) {
  static const std::string sql = insert_into<AuditRow>("audit");
  row.last_ms = std::max(row.time_ms, row.last_ms);
  writer.prepare(sql).bind(row).run();
  return sqlite3_last_insert_rowid(writer.handle());
}

void repeat_audit(Database& writer, std::int64_t entry, std::int64_t count, std::int64_t last_ms) {
  auto update = writer.prepare("UPDATE audit SET count = count + ?2, last_ms = max(last_ms, ?3) WHERE entry = ?1");
  update.bind(entry, count, last_ms).run();
}

std::int64_t count_audit(Database& writer) {
  return std::stoll(writer.scalar("SELECT count(*) FROM audit WHERE NOT kept_by_age"));
}

std::int64_t expire_audit(Database& writer, std::int64_t before_ms, std::int64_t limit) {
  auto remove = writer.prepare(
      "DELETE FROM audit WHERE entry IN (SELECT entry FROM audit WHERE kept_by_age AND last_ms < ?1 LIMIT ?2)");
  remove.bind(before_ms, limit).run();
  return sqlite3_changes64(writer.handle());
}

std::int64_t bound_audit(Database& writer, std::int64_t keep) {
  auto remove = writer.prepare(
      "DELETE FROM audit WHERE NOT kept_by_age AND entry <= (SELECT entry FROM audit WHERE NOT kept_by_age "
      "ORDER BY entry DESC LIMIT 1 OFFSET ?1)");
  remove.bind(keep).run();
  return sqlite3_changes64(writer.handle());
}

}  // namespace babelring::store
