#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "server/store/sqlite.h"

/// Stored responses by Idempotency-Key, so that a repeated request is not carried out twice. All throw SqlFailure.
namespace babelring::store {

struct KeptAnswer {
  std::string fingerprint;  // of the request
  int status = 0;           // 0: the request is still in progress
  std::string headers;      // a JSON array of [name, value]
  std::string body;
};

/// Claims the owner's key for a request that begins now, and deletes keys from before `since_ms`. If the key is taken,
/// it stays as it is and what is stored under it is returned.
std::optional<KeptAnswer> claim_key(Database& writer, std::string_view owner, std::string_view key,
                                    std::string_view fingerprint, std::int64_t now_ms, std::int64_t since_ms);
void keep_answer(Database& writer, std::string_view owner, std::string_view key, const KeptAnswer& answer);
/// Releases the key, as if the request had never come.
void release_key(Database& writer, std::string_view owner, std::string_view key);

}  // namespace babelring::store
