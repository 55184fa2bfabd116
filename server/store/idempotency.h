#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "server/store/sqlite.h"

/// Answers that are kept, so that a request may be sent again without being done again. Each throws SqlFailure.
namespace babelring::store {

struct KeptAnswer {
  std::string fingerprint;  // of the request
  int status = 0;           // 0: not answered yet
  std::string headers;      // a JSON array of [name, value]
  std::string body;
};

/// Takes the key of that owner for a request that begins now, and forgets keys from before `since_ms`. If the key is
/// taken already, nothing is changed and what is kept under it is returned.
std::optional<KeptAnswer> claim_key(Database& writer, std::string_view owner, std::string_view key,
                                    std::string_view fingerprint, std::int64_t now_ms, std::int64_t since_ms);
void keep_answer(Database& writer, std::string_view owner, std::string_view key, const KeptAnswer& answer);
/// As if the request had never come.
void release_key(Database& writer, std::string_view owner, std::string_view key);

}  // namespace babelring::store
