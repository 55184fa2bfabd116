#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace babelring::api {

/// What a query of series costs, as far as that is known before anything is read.
struct QueryPrice {
  std::int64_t series = 0;       // of the answer
  std::int64_t points = 0;       // of each, at most
  std::int64_t pieces = 0;       // stored steps and summaries that are read for all of them
  std::int64_t point_bytes = 0;  // of a point in the answer, roughly
  bool every_point = false;      // agg=raw: all points of one series are wanted, however many
};

inline constexpr std::int64_t max_query_points = 100'000;                // series times points, unless every_point
inline constexpr std::int64_t max_query_pieces = 4'000'000;              // about a second of work
inline constexpr std::int64_t max_query_bytes = std::int64_t{64} << 20;  // of the answer

/// Why the query costs too much: the price, the limit and what to reduce, in one line. Nothing if it may run.
std::optional<std::string> excess_of(const QueryPrice& price);

}  // namespace babelring::api
