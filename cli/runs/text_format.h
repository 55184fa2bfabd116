#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "base/grouped.h"
#include "base/json.h"

namespace babelring {

/// 243000000 → "243.0 MB".
std::string bytes_text(double bytes);
/// 451 → "7 min 31 s". Shows the two largest units.
std::string seconds_text(double seconds);

/// A bar of `width` characters in brackets: "[######....]" for 0.62.
std::string bar_text(double fraction, int width);

/// Members of an item; empty if absent or null. text_of() escapes control characters.
std::string text_of(const json::object& item, std::string_view name);
std::optional<double> number_of(const json::object& item, std::string_view name);
bool flag_of(const json::object& item, std::string_view name);
/// The member as an object, or null.
const json::object* object_of(const json::object& item, std::string_view name);

/// Formats a number; "" if there is none.
std::string fixed_text(std::optional<double> number, int decimals);
std::string grouped_text(std::optional<double> number);

}  // namespace babelring
