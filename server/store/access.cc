#include "server/store/access.h"

#include <sqlite3.h>

#include <algorithm>

namespace babelring::store {

template <const_or_not<TokenRow> Row, class Column>
void visit_columns(Row& token, Column&& column) {
  column.key("token", token.number);
  column("id", token.id);
  column("name", token.name);
  column("hash", token.hash);
  column("scope", token.scope);
  column("run", token.run);
  column("created_by", token.created_by);
  column("created_ms", token.created_ms);
  column("expires_ms", token.expires_ms);
  column("used_ms", token.used_ms);
  column("run_prefix", token.run_prefix);
}

template <const_or_not<AuditRow> Row, class Column>
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

std::vector<TokenRow> list_tokens(Reader& reader) {
  static const std::string sql = select<TokenRow>("FROM tokens ORDER BY token");
  return reader.database.prepare(sql).all<TokenRow>();
}

std::int64_t add_token(Database& writer, const TokenRow& token) {
  static const std::string sql = insert_into<TokenRow>("tokens", "RETURNING token");
  return writer.prepare(sql).bind(token).value<std::int64_t>();
}

bool remove_token(Database& writer, std::string_view id) {
  auto remove = writer.prepare("DELETE FROM tokens WHERE id = ?1 RETURNING token");
  return remove.bind(id).step();
}

void remove_run_tokens(Database& writer, std::string_view run) {
  auto remove = writer.prepare("DELETE FROM tokens WHERE run = ?1 AND run <> '' AND scope = 'ingest'");
  remove.bind(run).run();
}

void mark_tokens_used(Database& writer, std::span<const std::pair<std::string, std::int64_t>> uses) {
  auto update = writer.prepare("UPDATE tokens SET used_ms = ?2 WHERE id = ?1");
  for (const auto& [id, time_ms] : uses) update.bind(id, time_ms).run();
}

std::optional<StoredResponse> claim_key(Database& writer, std::string_view owner, std::string_view key,
                                        std::string_view fingerprint, std::int64_t now_ms, std::int64_t since_ms) {
  writer.prepare("DELETE FROM idempotency WHERE created_ms < ?1").bind(since_ms).run();
  {
    auto query =
        writer.prepare("SELECT fingerprint, status, headers, body FROM idempotency WHERE owner = ?1 AND key = ?2");
    StoredResponse stored;
    if (query.bind(owner, key).next(stored.fingerprint, stored.status, stored.headers, stored.body)) return stored;
  }
  auto insert = writer.prepare("INSERT INTO idempotency (owner, key, created_ms, fingerprint) VALUES (?1, ?2, ?3, ?4)");
  insert.bind(owner, key, now_ms, fingerprint).run();
  return std::nullopt;
}

void store_response(Database& writer, std::string_view owner, std::string_view key, const StoredResponse& answer) {
  auto update =
      writer.prepare("UPDATE idempotency SET status = ?3, headers = ?4, body = ?5 WHERE owner = ?1 AND key = ?2");
  update.bind(owner, key, answer.status, answer.headers, answer.body).run();
}

void release_key(Database& writer, std::string_view owner, std::string_view key) {
  writer.prepare("DELETE FROM idempotency WHERE owner = ?1 AND key = ?2").bind(owner, key).run();
}

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
