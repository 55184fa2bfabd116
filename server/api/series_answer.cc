#include "server/api/series_answer.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

#include "server/http/fields.h"

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

namespace {

static_assert(std::endian::native == std::endian::little, "f64 columns are little-endian");
constexpr const char* f64_type = "application/vnd.babelring.f64";

std::string_view kind_of_non_finite(double value) {
  if (std::isnan(value)) return "nan";
  return value > 0 ? "inf" : "-inf";
}

std::string csv_number(double value) {
  return std::isfinite(value) ? fmt::format("{}", value) : std::string(kind_of_non_finite(value));
}

bool has_bounds(const SeriesParams& params, const store::Series& series) {
  return series.sampled && params.agg == "minmax";
}

std::string columns_of(const SeriesParams& params, const store::Series& series) {
  if (has_bounds(params, series)) return "step,time_ms,min,avg,max";
  return series.sampled && params.agg != "lttb" ? "step,time_ms,avg" : "step,time_ms,value";
}

}  // namespace

SeriesForm form_of(const http::Request& request) {
  const std::string format = choice_query(request, "format", {"", "json", "csv", "f64"});
  if (!format.empty()) {
    return format == "csv" ? SeriesForm::csv : format == "f64" ? SeriesForm::f64 : SeriesForm::json;
  }
  static const std::array<std::string, 3> types = {"application/json", "text/csv", f64_type};
  return static_cast<SeriesForm>(http::accepted_type(request.header("accept"), types).value_or(0));
}

json::array non_finite_json(const store::Series& series) {
  json::array non_finite;
  for (const auto& [at, value] : series.non_finite) {
    non_finite.push_back({{"step", at}, {"kind", kind_of_non_finite(value)}});
  }
  return non_finite;
}

json::object series_json(const store::SeriesQuery& query, const SeriesParams& params, const store::Series& series) {
  json::array step, time, min, average, max;
  const bool bounds = has_bounds(params, series);
  for (const store::SeriesPoint& point : series.points) {
    step.push_back(point.step);
    time.push_back(point.time_ms);
    average.push_back(point.average);
    if (!bounds) continue;
    min.push_back(point.min);
    max.push_back(point.max);
  }
  json::object answer = {{"key", query.key},
                         {"rank", query.rank ? json::value(*query.rank) : json::value("all")},
                         {"aggregate", store::to_string(store::rank_aggregate(query.key))},
                         {"x", params.x},
                         {"agg", params.agg},
                         {"total", series.total},
                         {"returned", series.points.size()},
                         {"sampled", series.sampled},
                         {"step", std::move(step)},
                         {"time_ms", std::move(time)}};
  answer[series.sampled && params.agg != "lttb" ? "avg" : "value"] = std::move(average);
  if (bounds) {
    answer["min"] = std::move(min);
    answer["max"] = std::move(max);
  }
  answer["non_finite"] = non_finite_json(series);
  return answer;
}

std::string series_csv(const SeriesParams& params, const store::Series& series) {
  const bool bounds = has_bounds(params, series);
  std::string csv = columns_of(params, series) + '\n';
  for (const store::SeriesPoint& point : series.points) {
    csv += fmt::format("{},{},", point.step, point.time_ms);
    csv += bounds ? csv_number(point.min) + ',' + csv_number(point.average) + ',' + csv_number(point.max)
                  : csv_number(point.average);
    csv += '\n';
  }
  return csv;
}

http::Response series_f64(const SeriesParams& params, const store::Series& series) {
  const bool bounds = has_bounds(params, series);
  const std::size_t rows = series.points.size(), columns = bounds ? 5 : 3;
  std::string bytes(rows * columns * sizeof(double), '\0');
  const auto put = [&](std::size_t column, std::size_t row, double value) {
    std::memcpy(bytes.data() + (column * rows + row) * sizeof value, &value, sizeof value);
  };
  for (std::size_t row = 0; row < rows; ++row) {
    const store::SeriesPoint& point = series.points[row];
    put(0, row, static_cast<double>(point.step));
    put(1, row, static_cast<double>(point.time_ms));
    put(bounds ? 3 : 2, row, point.average);
    if (!bounds) continue;
    put(2, row, point.min);
    put(4, row, point.max);
  }
  http::Response response = http::text_response(200, f64_type, std::move(bytes));
  response.set("X-Columns", columns_of(params, series)).set("X-Rows", std::to_string(rows));
  response.set("X-Total", std::to_string(series.total));
  return response;
}

store::Series lttb(const store::Series& series, std::size_t target_points) {
  store::Series chosen{.total = series.total, .sampled = series.sampled, .non_finite = series.non_finite};
  std::vector<const store::SeriesPoint*> points;
  for (const store::SeriesPoint& point : series.points) {
    if (std::isfinite(point.average)) points.push_back(&point);
  }
  if (points.size() <= target_points) {
    for (const auto* point : points) chosen.points.push_back(*point);
    return chosen;
  }
  chosen.sampled = true;
  const double width =
      static_cast<double>(points.size() - 2) / static_cast<double>(target_points - 2);  // unused if target_points is 2
  const auto edge = [&](std::size_t bucket) {
    return std::min(points.size() - 1, static_cast<std::size_t>(static_cast<double>(bucket) * width) + 1);
  };
  const store::SeriesPoint* last = points.front();
  chosen.points.push_back(*last);
  for (std::size_t bucket = 0; bucket + 2 < target_points; ++bucket) {
    const std::size_t begin = edge(bucket), end = edge(bucket + 1), next_end = std::max(edge(bucket + 2), end + 1);
    double mean_x = 0, mean_y = 0;
    for (std::size_t i = end; i < next_end; ++i) {
      mean_x += static_cast<double>(points[i]->step);
      mean_y += points[i]->average;
    }
    mean_x /= static_cast<double>(next_end - end);
    mean_y /= static_cast<double>(next_end - end);
    const auto area = [&](const store::SeriesPoint* point) {
      const double dx = mean_x - static_cast<double>(last->step);
      return std::abs(dx * (point->average - last->average) -
                      static_cast<double>(point->step - last->step) * (mean_y - last->average));
    };
    last = *std::max_element(points.begin() + static_cast<std::ptrdiff_t>(begin),
                             points.begin() + static_cast<std::ptrdiff_t>(end),
                             [&](const auto* a, const auto* b) { return area(a) < area(b); });
    chosen.points.push_back(*last);
  }
  chosen.points.push_back(*points.back());
  return chosen;
}

}  // namespace babelring::api
