#pragma once

#include <string_view>

#include "base/ascii.h"

namespace babelring::http {

/// `text` without leading and trailing spaces and tabs (RFC 9110, 5.6.3: optional whitespace).
std::string_view trimmed(std::string_view text);

}  // namespace babelring::http
