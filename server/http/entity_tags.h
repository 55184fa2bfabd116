#pragma once

#include <string_view>
#include <vector>

namespace babelring::http {

/// The strong entity tags of an If-Match list, with their quotes. A weak one (W/"x") is left out: by RFC 9110 it never
/// matches there. Ends at what is no entity tag.
std::vector<std::string_view> strong_tags(std::string_view list);

/// RFC 9110 13.1.1: whether the field If-Match lets a request for what has the entity tag `etag` through. It does where
/// it is absent (empty) or "*".
bool if_match_holds(std::string_view field, std::string_view etag);

}  // namespace babelring::http
