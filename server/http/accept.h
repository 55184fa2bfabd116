#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace babelring::http {

/// Content negotiation (RFC 9110, 12.5.1). Returns the index in `types` of the media type that an Accept header
/// prefers, the first on a tie, or nothing if it accepts none. An empty header accepts all types. Parameters other than
/// `q` are ignored.
std::optional<std::size_t> accepted_type(std::string_view accept, std::span<const std::string> types);

}  // namespace babelring::http
