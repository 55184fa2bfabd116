#include "server/store/tokens.h"

namespace babelring::store {

template <same_row<TokenRow> Row, class Column>
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
  auto remove = writer.prepare("DELETE FROM tokens WHERE run = ?1 AND run <> ''");
  remove.bind(run).run();
}

void mark_tokens_used(Database& writer, std::span<const std::pair<std::string, std::int64_t>> uses) {
  auto update = writer.prepare("UPDATE tokens SET used_ms = ?2 WHERE id = ?1");
  for (const auto& [id, time_ms] : uses) update.bind(id, time_ms).run();
}

}  // namespace babelring::store
