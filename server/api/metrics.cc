#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>

#include "server/api/answers.h"
#include "server/api/service.h"
#include "server/store/series.h"

namespace babelring::api {
namespace {

constexpr std::int64_t most_points = 20'000, most_raw_points = 1'000'000;
constexpr double not_given = std::numeric_limits<double>::quiet_NaN();

/// What the request asks for, in its own words.
struct Asked {
  std::string x, agg, rank;
  bool csv = false;
};

double real_query(const http::Request& request, const std::string& name) {
  const auto text = request.query_value(name);
  if (!text || text->empty()) return not_given;
  double value = 0;
  const auto [end, error] = std::from_chars(text->data(), text->data() + text->size(), value);
  if (error != std::errc() || end != text->data() + text->size() || !std::isfinite(value)) {
    throw http::Problem(400, "bad_parameter", fmt::format("{}: expected a number, found '{}'", name, *text));
  }
  return value;
}

std::string choice_query(const http::Request& request, const std::string& name,
                         std::initializer_list<std::string_view> allowed) {
  const std::string value = request.query_value(name).value_or(std::string(*allowed.begin()));
  for (const std::string_view word : allowed) {
    if (value == word) return value;
  }
  throw http::Problem(400, "bad_parameter", fmt::format("{}: '{}' is not offered", name, value));
}

std::int64_t clamped(double value) {
  return static_cast<std::int64_t>(std::clamp(value, -9e15, 9e15));
}

store::SeriesQuery query_of(const http::Request& request, const store::RunRow& run, const Asked& asked) {
  store::SeriesQuery query;
  query.run = run.number;
  query.world_size = run.world_size;
  query.current_attempt = run.attempt;
  query.key = request.parameter("key");
  if (asked.rank != "all") query.rank = integer_query(request, "rank", 0, 1'000'000);
  query.by_time = asked.x != "step";
  const double origin = asked.x == "rel" ? static_cast<double>(run.started_ms) : 0;
  const double from = real_query(request, "from"), to = real_query(request, "to");
  if (!std::isnan(from)) query.from = clamped(std::ceil(from + origin));
  if (!std::isnan(to)) query.to = clamped(std::floor(to + origin));
  if (query.from > query.to) throw http::Problem(416, "range_empty", "from is greater than to");
  const std::int64_t most = asked.agg == "raw" ? most_raw_points : most_points;
  query.points = static_cast<std::size_t>(asked.agg == "raw" ? most : integer_query(request, "points", 2, most, 1200));
  return query;
}

std::string_view kind_of_non_finite(double value) {
  if (std::isnan(value)) return "nan";
  return value > 0 ? "inf" : "-inf";
}

json::value series_json(const store::SeriesQuery& query, const Asked& asked, const store::Series& series) {
  json::array step, time, min, average, max, non_finite;
  for (const store::SeriesPoint& point : series.points) {
    step.push_back(point.step);
    time.push_back(point.time_ms);
    average.push_back(point.average);
    if (!series.sampled || asked.agg != "minmax") continue;
    min.push_back(point.min);
    max.push_back(point.max);
  }
  for (const auto& [at, value] : series.non_finite) {
    non_finite.push_back({{"step", at}, {"kind", kind_of_non_finite(value)}});
  }
  json::object answer = {{"key", query.key},
                         {"rank", query.rank ? json::value(*query.rank) : json::value("all")},
                         {"aggregate", store::to_string(store::rank_aggregate(query.key))},
                         {"x", asked.x},
                         {"agg", asked.agg},
                         {"total", series.total},
                         {"returned", series.points.size()},
                         {"sampled", series.sampled},
                         {"step", std::move(step)},
                         {"time_ms", std::move(time)}};
  answer[series.sampled ? "avg" : "value"] = std::move(average);
  if (series.sampled && asked.agg == "minmax") {
    answer["min"] = std::move(min);
    answer["max"] = std::move(max);
  }
  answer["non_finite"] = std::move(non_finite);
  return answer;
}

std::string csv_number(double value) {
  return std::isfinite(value) ? fmt::format("{}", value) : std::string(kind_of_non_finite(value));
}

std::string series_csv(const Asked& asked, const store::Series& series) {
  const bool bounds = series.sampled && asked.agg == "minmax";
  std::string csv = bounds           ? "step,time_ms,min,avg,max\n"
                    : series.sampled ? "step,time_ms,avg\n"
                                     : "step,time_ms,value\n";
  for (const store::SeriesPoint& point : series.points) {
    csv += fmt::format("{},{},", point.step, point.time_ms);
    csv += bounds ? csv_number(point.min) + ',' + csv_number(point.average) + ',' + csv_number(point.max)
                  : csv_number(point.average);
    csv += '\n';
  }
  return csv;
}

http::Response show_series(Service& service, const http::Request& request) {
  Asked asked;
  asked.x = choice_query(request, "x", {"step", "wall", "rel"});
  asked.agg = choice_query(request, "agg", {"minmax", "avg", "raw"});
  asked.rank = request.query_value("rank").value_or("all");
  asked.csv =
      choice_query(request, "format", {"json", "csv"}) == "csv" || request.header("accept").starts_with("text/csv");
  auto reader = service.store.reader();
  const store::RunRow run = require_run(*reader, request);
  const store::SeriesQuery query = query_of(request, run, asked);
  const store::Series series = store::read_series(*reader, query);
  if (series.points.empty()) {
    const auto keys = store::all_keys(*reader, run.number);
    if (std::find(keys.begin(), keys.end(), query.key) == keys.end()) {
      throw http::Problem(404, "key_unknown", fmt::format("run {} has no metric '{}'", run.id, query.key));
    }
  }
  if (!asked.csv) return json_response(series_json(query, asked, series)).set("Vary", "Accept");
  http::Response response = http::text_response(200, "text/csv; charset=utf-8", series_csv(asked, series));
  response.set("Vary", "Accept");
  return response;
}

http::Response list_keys(Service& service, const http::Request& request) {
  const std::int64_t rank = integer_query(request, "rank", 0, 1'000'000, 0);
  auto reader = service.store.reader();
  const store::RunRow run = require_run(*reader, request);
  json::array items;
  for (const store::KeySummary& key : store::summarise_keys(*reader, run.number, rank)) {
    items.push_back({{"key", key.key},
                     {"aggregate", store::to_string(store::rank_aggregate(key.key))},
                     {"count", key.count},
                     {"first", key.first},
                     {"last", key.last},
                     {"min", key.min},
                     {"min_step", key.min_step},
                     {"max", key.max},
                     {"max_step", key.max_step}});
  }
  return json_response(json::object{{"rank", rank}, {"items", std::move(items)}, {"next_cursor", nullptr}});
}

}  // namespace

void add_metric_routes(http::Router& router, Service& service) {
  router.add("GET", "/api/v1/runs/{run}/metrics", http::Scope::read,
             [&service](const http::Request& request) { return list_keys(service, request); });
  router.add("GET", "/api/v1/runs/{run}/metrics/{key}", http::Scope::read,
             [&service](const http::Request& request) { return show_series(service, request); });
}

}  // namespace babelring::api
