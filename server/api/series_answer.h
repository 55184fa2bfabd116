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

/// The response formats of one series.
enum class SeriesForm { json, csv, f64 };
/// Chooses the format by `format` and Accept. Throws Problem 400.
SeriesForm form_of(const http::Request& request);

json::array non_finite_json(const store::Series& series);
json::object series_json(const store::SeriesQuery& query, const SeriesParams& params, const store::Series& series);
/// CSV with a header line. Numbers round-trip; non-finite ones are nan, inf and -inf.
std::string series_csv(const SeriesParams& params, const store::Series& series);
/// The columns of the CSV one after another, as little-endian IEEE doubles. The headers X-Columns (comma-separated
/// names) and X-Rows describe them.
http::Response series_f64(const SeriesParams& params, const store::Series& series);

/// Down-samples to at most `target_points` (2 or more) of the stored points so that the line looks the same. Leaves
/// out non-finite points.  Source: Sveinn Steinarsson, Downsampling Time Series for Visual Representation, 2013,
/// Largest-Triangle-Three-Buckets.
store::Series lttb(const store::Series& series, std::size_t target_points);

}  // namespace babelring::api
