#include "server/api/series_request.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace babelring::api {
namespace {

std::int64_t clamped(double value) {
  return static_cast<std::int64_t>(std::clamp(value, -9e15, 9e15));
}

}  // namespace

SeriesParams read_series_params(const http::Request& request) {
  return {choice_query(request, "x", {"step", "wall", "rel"}),
          choice_query(request, "agg", {"minmax", "avg", "lttb", "raw"}),
          request.query_value("from").has_value() || request.query_value("to").has_value()};
}

store::SeriesQuery range_query(const store::RunRow& run, const std::string& x, double from, double to) {
  store::SeriesQuery query;
  query.run = run.number;
  query.world_size = run.world_size;
  query.current_attempt = run.attempt;
  query.by_time = x != "step";
  const double origin = x == "rel" ? static_cast<double>(run.started_ms) : 0;
  if (!std::isnan(from)) query.from = clamped(std::ceil(from + origin));
  if (!std::isnan(to)) query.to = clamped(std::floor(to + origin));
  if (query.from > query.to) throw http::Problem(416, "range_empty", "expected from <= to");
  return query;
}

store::SeriesQuery query_of(const http::Request& request, const store::RunRow& run, const SeriesParams& params) {
  store::SeriesQuery query = range_query(run, params.x, number_query(request, "from"), number_query(request, "to"));
  const bool raw = params.agg == "raw";  // returns every point and ignores `points`
  const std::int64_t points = integer_query(request, "points", 2, raw ? max_raw_points : max_points, 1200);
  query.points = static_cast<std::size_t>(raw ? max_raw_points : points);
  return query;
}

}  // namespace babelring::api
