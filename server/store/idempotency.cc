#include "server/store/idempotency.h"

namespace babelring::store {

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

}  // namespace babelring::store
