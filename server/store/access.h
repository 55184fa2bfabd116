#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "server/store/readers.h"

/// Tables of server/access: tokens, responses by idempotency key, and the audit log. All functions throw SqlFailure.
namespace babelring::store {

struct TokenRow {
  std::int64_t number = 0;  // creation order
  std::string id, name;     // t_…
  std::string hash;         // SHA-256 of the secret; the secret is not stored
  std::string scope;        // read, ingest, operate or admin
  std::string run;          // id of the only run it may write to, or with scope read may read; empty: any
  std::string created_by;
  std::int64_t created_ms = 0;
  std::optional<std::int64_t> expires_ms, used_ms;
  std::string run_prefix;  // required name prefix of runs it may write to; empty: any
};

/// Oldest first.
std::vector<TokenRow> list_tokens(Reader& reader);

/// Returns the token's number.
std::int64_t add_token(Database& writer, const TokenRow& token);
/// Returns false if the id is unknown.
bool remove_token(Database& writer, std::string_view id);
/// Removes the tokens that report for this run alone. Those that read it stay.
void remove_run_tokens(Database& writer, std::string_view run);
/// Stores the time of last use of each token, given as (id, ms since 1970).
void mark_tokens_used(Database& writer, std::span<const std::pair<std::string, std::int64_t>> uses);

/// The response stored for an Idempotency-Key, so that a repeated request is executed only once.
struct StoredResponse {
  std::string fingerprint;  // digest of the request
  int status = 0;           // 0: the request is still in progress
  std::string headers;      // a JSON array of [name, value]
  std::string body;
};

/// Claims the owner's key for a new request, and deletes keys older than `since_ms`. Returns nothing on success. If the
/// key is taken, returns the stored response and changes nothing.
std::optional<StoredResponse> claim_key(Database& writer, std::string_view owner, std::string_view key,
                                        std::string_view fingerprint, std::int64_t now_ms, std::int64_t since_ms);
/// Stores the response to the request that claimed the key.
void store_response(Database& writer, std::string_view owner, std::string_view key, const StoredResponse& answer);
/// Deletes the key, so that a repeated request is executed again.
void release_key(Database& writer, std::string_view owner, std::string_view key);

/// An entry of the audit log: user, action and object.
struct AuditRow {
  std::int64_t number = 0;                // entry number
  std::int64_t time_ms = 0, last_ms = 0;  // first and last request of this entry
  std::int64_t count = 1;                 // requests combined in this entry
  bool kept_by_age = false;               // expires by age; otherwise by number of entries
  std::string actor, token, method, route, object;
  int status = 0;
  std::string request, address;  // of the first request
};

/// Empty strings and default bounds match all rows.
struct AuditFilter {
  std::string actor, token, route;
  std::string object;  // this path and all paths below it
  int lowest_status = 0, highest_status = 999;
  std::int64_t from_ms = 0, to_ms = std::numeric_limits<std::int64_t>::max();  // a request in [from, to)
  std::int64_t before = std::numeric_limits<std::int64_t>::max();              // entry numbers in (after, before)
  std::int64_t after = 0;
  std::int64_t limit = 50;
  bool oldest_first = false;
};
/// Newest first unless `oldest_first` is set.
std::vector<AuditRow> list_audit(Reader& reader, const AuditFilter& filter);

/// Appends a row and returns its entry number.
std::int64_t append_audit(Database& writer, AuditRow row);

/// Adds `count` repeated requests to an existing entry. Does nothing if the entry no longer exists.
void repeat_audit(Database& writer, std::int64_t entry, std::int64_t count, std::int64_t last_ms);

/// Number of rows with kept_by_age false.
std::int64_t count_audit(Database& writer);

/// Deletes up to `limit` rows with kept_by_age true and a last request before `before_ms`. Returns the number of rows
/// deleted.
std::int64_t expire_audit(Database& writer, std::int64_t before_ms, std::int64_t limit);

/// Deletes all rows with kept_by_age false except the newest `keep`. Returns the number of rows deleted.
std::int64_t bound_audit(Database& writer, std::int64_t keep);

}  // namespace babelring::store
