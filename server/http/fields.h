#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/text.h"
#include "server/http/message.h"
#include "server/http/reply.h"

namespace babelring::http {

/// Content negotiation (RFC 9110, 12.5.1). Returns the index in `types` of the media type that an Accept header
/// prefers, the first on a tie, or nothing if it accepts none. An empty header accepts all types. Parameters other than
/// `q` are ignored.
std::optional<std::size_t> accepted_type(std::string_view accept, std::span<const std::string> types);

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

/// `text` without leading and trailing spaces and tabs (RFC 9110, 5.6.3: optional whitespace).
std::string_view trimmed(std::string_view text);

/// Media type accepted by PATCH in addition to application/json (RFC 7396).
inline constexpr const char* merge_patch_type = "application/merge-patch+json";
/// The media type of a Content-Type header, in lower case and without parameters.
std::string media_type_of(std::string_view content_type);

/// Checks the query parameters of a request target against the `known` ones. Returns a problem for an unknown or
/// repeated parameter, otherwise nothing.
std::optional<Problem> query_fault(const std::string& target, const std::vector<std::string>& known);

/// The part of a body requested by a Range header (RFC 9110, 14).
struct RangeRequest {
  enum class Kind { whole, part, unsatisfiable };
  Kind kind = Kind::whole;
  std::int64_t first = 0, length = 0;
};

/// Parses a Range header for a body of `size` bytes. An absent or malformed header, an unknown unit and multiple ranges
/// select the whole body.
RangeRequest parse_range(std::string_view header, std::int64_t size);

}  // namespace babelring::http
