#pragma once

#include <boost/json/object.hpp>
#include <boost/json/value.hpp>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"

namespace babelring {

// Members of a JSON object that may be absent, null or of another type.

/// "" if it is not a string.
std::string get_text(const boost::json::object& object, std::string_view name);
/// 0 if it is not an integer.
std::int64_t get_integer(const boost::json::object& object, std::string_view name);
std::optional<double> get_number(const boost::json::object& object, std::string_view name);  // none: no number
/// False if it is not a boolean.
bool get_flag(const boost::json::object& object, std::string_view name);
/// Null if it is not an object.
const boost::json::object* get_object(const boost::json::object& object, std::string_view name);

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
