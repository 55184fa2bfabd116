#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "server/http/message.h"

namespace babelring::api {

/// Milliseconds since 1970 of a time as RFC 3339 has it, 2026-11-21T09:15:30.123+01:00, or of the beginning of a day in
/// UTC, 2026-11-21. Nothing for other texts.
std::optional<std::int64_t> parse_time(std::string_view text);

/// A query parameter as such a time. Throws Problem 400.
std::optional<std::int64_t> time_query(const http::Request& request, const std::string& name);

}  // namespace babelring::api
