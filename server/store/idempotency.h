#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "server/store/sqlite.h"

/// Responses stored by Idempotency-Key, so that a repeated request is executed only once. All functions throw
/// SqlFailure.
namespace babelring::store {

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

}  // namespace babelring::store
