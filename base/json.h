#pragma once

#include <boost/json/value.hpp>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "base/result.h"

namespace babelring {

namespace json = boost::json;

/// Serializes to compact JSON. Doubles use the shortest form that parses back to the same value (std::to_chars);
/// non-finite doubles become null. Boost.JSON's own writer would print NaN and 3.217E0.
std::string to_text(const json::value& value);

/// Limits on a JSON text, in addition to its depth.
struct JsonLimits {
  std::size_t values = SIZE_MAX;        // total number of values
  std::size_t string_bytes = SIZE_MAX;  // bytes of each string and member name
};

/// Parses a whole text strictly: max depth 32; duplicate member names, invalid UTF-8 and numbers that overflow a double
/// are errors. The Error gives the cause and the byte offset.
Result<json::value> parse_json(std::string_view text, const JsonLimits& limits = {});

}  // namespace babelring
