#include "server/store/tokens.h"

namespace babelring::store {
namespace {

std::optional<std::int64_t> time_of(const Statement& row, int column) {
  if (row.is_null(column)) return std::nullopt;
  return row.integer(column);
}

}  // namespace

std::vector<TokenRow> list_tokens(Reader& reader) {
  auto query = reader.database.prepare(
      "SELECT token, id, name, hash, scope, run, created_by, created_ms, expires_ms, used_ms, run_prefix "
      "FROM tokens ORDER BY token");
  std::vector<TokenRow> tokens;
  while (query.step()) {
    tokens.push_back({query.integer(0), query.text(1), query.text(2), query.text(3), query.text(4), query.text(5),
                      query.text(6), query.integer(7), time_of(query, 8), time_of(query, 9), query.text(10)});
  }
  return tokens;
}

std::int64_t add_token(Database& writer, const TokenRow& token) {
  auto insert = writer.prepare(
      "INSERT INTO tokens (id, name, hash, scope, run, created_by, created_ms, expires_ms, run_prefix) "
      "VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, nullif(?8, 0), ?9) RETURNING token");
  insert.bind(token.id, token.name, token.hash, token.scope, token.run, token.created_by, token.created_ms,
              token.expires_ms.value_or(0), token.run_prefix);
  insert.step();
  return insert.integer(0);
}

bool remove_token(Database& writer, std::string_view id) {
  auto remove = writer.prepare("DELETE FROM tokens WHERE id = ?1 RETURNING token");
  return remove.bind(id).step();
}

void remove_run_tokens(Database& writer, std::string_view run) {
  auto remove = writer.prepare("DELETE FROM tokens WHERE run = ?1 AND run <> ''");
  remove.bind(run).run();
}

void mark_tokens_used(Database& writer, std::span<const std::pair<std::string, std::int64_t>> uses) {
  auto update = writer.prepare("UPDATE tokens SET used_ms = ?2 WHERE id = ?1");
  for (const auto& [id, time_ms] : uses) update.bind(id, time_ms).run();
}

}  // namespace babelring::store
