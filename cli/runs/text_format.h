#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/grouped.h"
#include "base/json.h"
#include "base/json_get.h"

namespace babelring {

/// 243000000 → "243.0 MB".
std::string bytes_text(double bytes);
/// 451 → "7 min 31 s". Shows the two largest units.
std::string seconds_text(double seconds);

/// A bar of `width` characters in brackets: "[######....]" for 0.62.
std::string bar_text(double fraction, int width);

/// A text member with control characters escaped; "" if it is absent or null.
std::string text_of(const json::object& item, std::string_view name);

/// Replaces the UTC times (RFC 3339) in a sentence of the server's by local times: "22:46", or "2026-11-27 22:46" if
/// that is not today.
std::string local_times(std::string_view text, std::int64_t now_ms);

/// Formats a number; "" if there is none.
std::string fixed_text(std::optional<double> number, int decimals);
std::string grouped_text(std::optional<double> number);

}  // namespace babelring
