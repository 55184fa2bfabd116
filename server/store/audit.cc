#include "server/store/audit.h"

#include <sqlite3.h>

#include <algorithm>

namespace babelring::store {
namespace {

constexpr const char* newest_audit_first =
    "SELECT entry, time_ms, last_ms, count, kept_by_age, actor, token, method, route, object, status, request, address "
    "FROM audit WHERE entry > ?1 AND entry < ?2 AND last_ms >= ?3 AND time_ms < ?4 AND status BETWEEN ?5 AND ?6 "
    "AND (?7 = '' OR actor = ?7) AND (?8 = '' OR token = ?8) AND (?9 = '' OR route = ?9) "
    "AND (?10 = '' OR object = ?10 OR substr(object, 1, length(?10) + 1) = ?10 || '/') ORDER BY entry DESC LIMIT ?11";

std::string oldest_audit_first() {
  std::string sql = newest_audit_first;
  return sql.replace(sql.find(" DESC "), 6, " ASC ");
}

}  // namespace

std::vector<AuditRow> list_audit(Reader& reader, const AuditFilter& filter) {
  static const std::string oldest_first = oldest_audit_first();
  auto query = reader.database.prepare(filter.oldest_first ? std::string_view(oldest_first)
                                                           : std::string_view(newest_audit_first));
  query.bind(filter.after, filter.before, filter.from_ms, filter.to_ms, filter.lowest_status, filter.highest_status,
             filter.actor, filter.token, filter.route, filter.object, filter.limit);
  std::vector<AuditRow> rows;
  while (query.step()) {
    rows.push_back({query.integer(0), query.integer(1), query.integer(2), query.integer(3), query.integer(4) != 0,
                    query.text(5), query.text(6), query.text(7), query.text(8), query.text(9),
                    static_cast<int>(query.integer(10)), query.text(11), query.text(12)});
  }
  return rows;
}

std::int64_t append_audit(Database& writer, const AuditRow& row) {
  auto insert = writer.prepare(
      "INSERT INTO audit (time_ms, last_ms, count, kept_by_age, actor, token, method, route, object, status, request, "
      "address) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12)");
  insert.bind(row.time_ms, std::max(row.time_ms, row.last_ms), row.count, row.kept_by_age, row.actor, row.token,
              row.method, row.route, row.object, row.status, row.request, row.address);
  insert.run();
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
