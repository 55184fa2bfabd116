#pragma once

#include <string_view>
#include <vector>

#include "server/http/message.h"

namespace babelring::http {

/// The entity tags of an If-Match list, including quotes, without W/. Stops at the first malformed tag.
enum class WeakTags {
  skip,  // they match no bytes (RFC 9110, 13.1.1)
  take,  // of a tag that names a state: a proxy that compresses the answer makes its tag weak, the state is the same
};
std::vector<std::string_view> entity_tags(std::string_view list, WeakTags weak_tags);

/// True if an If-Match field allows a request for a resource with the entity tag `etag` (RFC 9110, 13.1.1). An absent
/// (empty) field and "*" allow every request.
bool if_match_holds(std::string_view field, std::string_view etag);

/// True if an If-None-Match list contains this entity tag.
bool lists_etag(std::string_view list, std::string_view etag);

/// Adds an ETag to a 200 response to GET or HEAD. Turns the response into 304 if the client has that version.
void add_validator(const RequestMessage& request, Response& response);

}  // namespace babelring::http
