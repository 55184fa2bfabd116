#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "server/store/readers.h"

/// Stored access tokens. All functions throw SqlFailure.
namespace babelring::store {

struct TokenRow {
  std::int64_t number = 0;  // creation order
  std::string id, name;     // t_…
  std::string hash;         // SHA-256 of the secret; the secret is not stored
  std::string scope;        // read, ingest, operate or admin
  std::string run;          // id of the only run it may write to; empty: any
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
/// Removes the tokens bound to this run.
void remove_run_tokens(Database& writer, std::string_view run);
/// Stores the time of last use of each token, given as (id, ms since 1970).
void mark_tokens_used(Database& writer, std::span<const std::pair<std::string, std::int64_t>> uses);

}  // namespace babelring::store
