#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "base/grouped.h"
#include "base/json.h"

namespace babelring {

/// 243000000 → "243.0 MB".
std::string bytes_text(double bytes);
/// 451 → "7 min 31 s"; the two largest units.
std::string seconds_text(double seconds);

/// "[######....]" for 0.62: as wide as `width` and the brackets.
std::string bar_text(double fraction, int width);

/// Members of an item, or nothing where they are absent or null. Texts are made printable.
std::string text_of(const json::object& item, std::string_view name);
std::optional<double> number_of(const json::object& item, std::string_view name);
bool flag_of(const json::object& item, std::string_view name);
/// The member as an object, or null.
const json::object* object_of(const json::object& item, std::string_view name);

/// "" for nothing.
std::string fixed_text(std::optional<double> number, int decimals);
std::string grouped_text(std::optional<double> number);

}  // namespace babelring
