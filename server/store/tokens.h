#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "server/store/readers.h"

/// Tokens as they are stored. All functions throw SqlFailure.
namespace babelring::store {

struct TokenRow {
  std::int64_t number = 0;  // creation order
  std::string id, name;     // t_…
  std::string hash;         // SHA-256 of the secret, which itself is stored nowhere
  std::string scope;        // read, ingest, operate or admin
  std::string run;          // the only run it may write to; empty: any
  std::string created_by;
  std::int64_t created_ms = 0;
  std::optional<std::int64_t> expires_ms, used_ms;
  std::string run_prefix;  // what the names of the runs that it may write to begin with; empty: any
};

/// Oldest first.
std::vector<TokenRow> list_tokens(Reader& reader);

/// Returns the token's number.
std::int64_t add_token(Database& writer, const TokenRow& token);
/// False if there is none of that id.
bool remove_token(Database& writer, std::string_view id);
/// Removes the tokens that are for this run alone.
void remove_run_tokens(Database& writer, std::string_view run);
/// Records last uses, given as (id, time).
void mark_tokens_used(Database& writer, std::span<const std::pair<std::string, std::int64_t>> uses);

}  // namespace babelring::store
