#pragma once

#include <string>

#include "server/api/responses.h"
#include "server/api/service.h"
#include "server/store/series/series.h"

namespace babelring::api {

inline constexpr std::int64_t max_points = 20'000, max_raw_points = 1'000'000;

/// The query parameters of a request for series.
struct SeriesParams {
  std::string x;         // unit of from and to: step, wall or rel
  std::string agg;       // minmax, avg, lttb or raw
  bool bounded = false;  // from or to was given
};

/// Reads x and agg. Throws Problem 400.
SeriesParams read_series_params(const http::Request& request);

/// The range [from, to] of a run in units of `x`; NaN leaves an end open. Throws Problem 416 if from is above to.
store::SeriesQuery range_query(const store::RunRow& run, const std::string& x, double from, double to);

/// The requested range and resolution. The caller sets key and rank. Throws Problem 400 or 416.
store::SeriesQuery query_of(const http::Request& request, const store::RunRow& run, const SeriesParams& params);

}  // namespace babelring::api
