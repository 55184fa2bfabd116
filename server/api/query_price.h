#pragma once

#include <cstdint>

#include "base/result.h"

namespace babelring::api {

/// The estimated cost of a series query, before anything is read.
struct QueryPrice {
  std::int64_t series = 0;       // series in the response
  std::int64_t points = 0;       // max points per series
  std::int64_t rows = 0;         // stored steps and summaries to read, for all series together
  std::int64_t point_bytes = 0;  // approximate size of a point in the response
  bool every_point = false;      // agg=raw: all points of one series, without max_query_points
};

inline constexpr std::int64_t max_query_points = 100'000;                // series times points, unless every_point
inline constexpr std::int64_t max_query_rows = 4'000'000;                // about a second of work
inline constexpr std::int64_t max_query_bytes = std::int64_t{64} << 20;  // of the response

/// Checks that the query may run. The error names its cost, the limit and the remedy.
Status check_price(const QueryPrice& price);

}  // namespace babelring::api
