#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace babelring::http {

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
