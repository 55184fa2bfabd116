#pragma once

#include <string>

#include "server/api/series_request.h"

namespace babelring::api {

/// The forms in which one series is answered.
enum class SeriesForm { json, csv, f64 };
/// By `format` and Accept. Throws Problem 400.
SeriesForm form_of(const http::Request& request);

json::array non_finite_json(const store::Series& series);
json::object series_json(const store::SeriesQuery& query, const Asked& asked, const store::Series& series);
/// Columns with a heading; numbers read back equal; nan, inf and -inf as such.
std::string series_csv(const Asked& asked, const store::Series& series);
/// The columns of the CSV one after another, as little-endian IEEE doubles. What they are say the headers X-Columns
/// (names with commas between) and X-Rows.
http::Response series_f64(const Asked& asked, const store::Series& series);

/// At most `most` of the points (2 or more), chosen so that the line looks the same: each is one that was stored.
/// Points that are not finite are left out.  Source: Sveinn Steinarsson, Downsampling Time Series for Visual
/// Representation, 2013, Largest-Triangle-Three-Buckets.
store::Series lttb(const store::Series& series, std::size_t most);

}  // namespace babelring::api
