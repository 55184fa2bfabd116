#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "server/http/message.h"

namespace babelring::api {

/// Parses an RFC 3339 time, 2026-11-21T09:15:30.123+01:00, or a day, 2026-11-21, which means its start in UTC. Returns
/// milliseconds since 1970, or nullopt.
std::optional<std::int64_t> parse_time(std::string_view text);

/// A query parameter parsed by parse_time(). Throws Problem 400.
std::optional<std::int64_t> time_query(const http::Request& request, const std::string& name);

}  // namespace babelring::api
