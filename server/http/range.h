#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace babelring::http {

/// The part of a body that a Range header asks for (RFC 9110, 14).
struct RangeRequest {
  enum class Kind { whole, part, unsatisfiable };
  Kind kind = Kind::whole;
  std::int64_t first = 0, length = 0;
};

/// `size`: of the body. A Range that is absent, malformed, of an unknown unit or of several parts asks for all of it.
RangeRequest parse_range(std::string_view header, std::int64_t size);

}  // namespace babelring::http
