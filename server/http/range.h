#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace babelring::http {

/// What a Range header asks of a body of `size` bytes (RFC 9110, 14).
struct RangeRequest {
  enum class Kind { whole, part, unsatisfiable };
  Kind kind = Kind::whole;
  std::int64_t first = 0, length = 0;
};

/// An absent, unknown or malformed Range, and one of several parts, asks for the whole body.
RangeRequest parse_range(std::string_view header, std::int64_t size);

}  // namespace babelring::http
