#pragma once

#include <boost/json/value.hpp>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "base/result.h"

namespace babelring {

namespace json = boost::json;

/// Compact JSON text. Doubles are written with the fewest digits that read back equal (std::to_chars), never as NaN or
/// Infinity: a non-finite number is written as null (Boost.JSON's own writer prints bare NaN and 3.217E0).
std::string to_text(const json::value& value);

/// How much a text may hold, besides its depth.
struct JsonLimits {
  std::size_t values = SIZE_MAX;        // in all
  std::size_t string_bytes = SIZE_MAX;  // of each string and member name
};

/// Strict parse: whole text, depth at most 32, duplicate member names refused, numbers that overflow a double refused.
/// The Error says what and at which byte.
Result<json::value> parse_json(std::string_view text, const JsonLimits& limits = {});

}  // namespace babelring
