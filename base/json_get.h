#pragma once

#include <boost/json/object.hpp>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

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

}  // namespace babelring
