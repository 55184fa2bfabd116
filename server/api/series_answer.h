#pragma once

#include <string>

#include "server/api/series_request.h"

namespace babelring::api {

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
