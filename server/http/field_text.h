#pragma once

#include <string>
#include <string_view>

#include "base/ascii.h"

namespace babelring::http {

/// `text` without leading and trailing spaces and tabs (RFC 9110, 5.6.3: optional whitespace).
std::string_view trimmed(std::string_view text);

/// Media type accepted by PATCH in addition to application/json (RFC 7396).
inline constexpr const char* merge_patch_type = "application/merge-patch+json";
/// The media type of a Content-Type header, in lower case and without parameters.
std::string media_type_of(std::string_view content_type);

}  // namespace babelring::http
