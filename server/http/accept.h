#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace babelring::http {

/// The place in `types` of the media type that an Accept field (RFC 9110, 12.5.1) likes best, the first of equals;
/// nothing where it takes none of them. An empty field takes all. Parameters but `q` are passed over.
std::optional<std::size_t> accepted_type(std::string_view accept, std::span<const std::string> types);

}  // namespace babelring::http
