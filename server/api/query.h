#pragma once

#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "server/http/message.h"

/// Query parameters of requests. A function that reads one throws Problem 400 for a value that it does not accept.
namespace babelring::api {

// Max values accepted from clients, for ranks, and for attempts, updates and times. Doubles represent the latter
// exactly, and their sums and differences cannot overflow.
inline constexpr std::int64_t max_rank = 1'000'000, max_number = std::int64_t{1} << 53;

/// A query parameter as an integer in [low, high]; `absent`, or nothing, if it is absent.
std::int64_t integer_query(const http::Request& request, const std::string& name, std::int64_t low, std::int64_t high,
                           std::int64_t absent);
std::optional<std::int64_t> integer_query(const http::Request& request, const std::string& name, std::int64_t low,
                                          std::int64_t high);
/// A query parameter as a finite number; NaN if it is absent.
double number_query(const http::Request& request, const std::string& name);
/// A query parameter that is true or false; nothing if it is absent.
std::optional<bool> flag_query(const http::Request& request, const std::string& name);
/// A query parameter with one of the `allowed` values; the first is the default.
std::string choice_query(const http::Request& request, const std::string& name,
                         std::initializer_list<std::string_view> allowed);
/// The comma-separated values of a query parameter; empty if it is absent.
std::vector<std::string> list_query(const http::Request& request, const std::string& name);
/// A query parameter parsed by parse_time(), in ms since 1970; nothing if it is absent.
std::optional<std::int64_t> time_query(const http::Request& request, const std::string& name);

/// Parses an RFC 3339 time, 2026-11-21T09:15:30.123+01:00, or a day, 2026-11-21, which means its start in UTC. Returns
/// milliseconds since 1970, or nullopt.
std::optional<std::int64_t> parse_time(std::string_view text);

/// The query parameter `limit`: default 50, max 500.
std::int64_t page_limit(const http::Request& request);
/// Opaque page positions of two numbers. read_cursor() returns {0, 0} without a cursor.
std::string make_cursor(std::int64_t a, std::int64_t b);
std::pair<std::int64_t, std::int64_t> read_cursor(const http::Request& request);
/// The name in the cursor of a list sorted by name; empty without a cursor.
std::string make_name_cursor(std::string_view name);
std::string read_name_cursor(const http::Request& request);

}  // namespace babelring::api
