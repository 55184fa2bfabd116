#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace babelring::http {

/// Index in `types` of the media type that an Accept header (RFC 9110, 12.5.1) prefers, the first one on a tie; nothing
/// if it accepts none of them. An empty header accepts all. Parameters other than `q` are ignored.
std::optional<std::size_t> accepted_type(std::string_view accept, std::span<const std::string> types);

}  // namespace babelring::http
