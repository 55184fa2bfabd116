#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>
#include <sstream>

#include "server/api/answers.h"
#include "server/api/service.h"
#include "server/store/series.h"

namespace babelring::api {
namespace {

constexpr std::int64_t most_points = 20'000, most_raw_points = 1'000'000;
constexpr std::int64_t most_rank = 1'000'000;
constexpr std::size_t most_series = 64;  // of one answer
constexpr double not_given = std::numeric_limits<double>::quiet_NaN();

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

/// What the request asks for, in its own words.
struct Asked {
  std::string x, agg;
};

Asked asked_of(const http::Request& request) {
  return {choice_query(request, "x", {"step", "wall", "rel"}), choice_query(request, "agg", {"minmax", "avg", "raw"})};
}

std::int64_t clamped(double value) {
  return static_cast<std::int64_t>(std::clamp(value, -9e15, 9e15));
}

/// The range and resolution that are asked for; key and rank are left to the caller.
store::SeriesQuery query_of(const http::Request& request, const store::RunRow& run, const Asked& asked) {
  store::SeriesQuery query;
  query.run = run.number;
  query.world_size = run.world_size;
  query.current_attempt = run.attempt;
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
  const Asked asked = asked_of(request);
  const bool csv =
      choice_query(request, "format", {"json", "csv"}) == "csv" || request.header("accept").starts_with("text/csv");
  auto reader = service.store.reader();
  const store::RunRow run = require_run(*reader, request);
  store::SeriesQuery query = query_of(request, run, asked);
  query.key = request.parameter("key");
  if (request.query_value("rank") != "all") query.rank = integer_query(request, "rank", 0, most_rank);
  const store::Series series = store::read_series(*reader, query);
  if (series.points.empty()) {
    const auto keys = store::all_keys(*reader, run.number);
    if (std::find(keys.begin(), keys.end(), query.key) == keys.end()) {
      throw http::Problem(404, "key_unknown", fmt::format("run {} has no metric '{}'", run.id, query.key));
    }
  }
  if (!csv) return json_response(series_json(query, asked, series)).set("Vary", "Accept");
  http::Response response = http::text_response(200, "text/csv; charset=utf-8", series_csv(asked, series));
  response.set("Vary", "Accept");
  return response;
}

/// "loss" is of all ranks, "network_tx_bytes_per_second@3" of one.
std::vector<store::SeriesQuery> queries_of(const http::Request& request, const store::SeriesQuery& common) {
  std::vector<store::SeriesQuery> queries;
  std::istringstream names(request.query_value("keys").value_or(""));
  for (std::string name; std::getline(names, name, ',');) {
    store::SeriesQuery& query = queries.emplace_back(common);
    const auto at = name.find('@');
    query.key = name.substr(0, at);
    if (at == std::string::npos) continue;
    query.rank = parse_integer(name.substr(at + 1));
    if (!query.rank || *query.rank < 0 || *query.rank > most_rank) {
      throw http::Problem(400, "bad_parameter", fmt::format("keys: '{}' names no rank after the @", name));
    }
  }
  if (queries.empty() || queries.size() > most_series) {
    throw http::Problem(
        400, "bad_parameter",
        fmt::format("keys: expected 1 to {} keys with commas between, found {}", most_series, queries.size()));
  }
  return queries;
}

/// Several series over one range, so that a page with many charts asks once. A key no step has had yet is empty.
http::Response list_series(Service& service, const http::Request& request) {
  const Asked asked = asked_of(request);
  if (asked.agg == "raw") throw http::Problem(400, "bad_parameter", "agg: raw is offered for one key at a time");
  auto reader = service.store.reader();
  const store::RunRow run = require_run(*reader, request);
  json::array items;
  for (const store::SeriesQuery& query : queries_of(request, query_of(request, run, asked))) {
    items.push_back(series_json(query, asked, store::read_series(*reader, query)));
  }
  return json_response(json::object{{"items", std::move(items)}, {"next_cursor", nullptr}});
}

}  // namespace

void add_series_routes(http::Router& router, Service& service) {
  router.add("GET", "/api/v1/runs/{run}/metrics/{key}", http::Scope::read,
             [&service](const http::Request& request) { return show_series(service, request); });
  router.add("GET", "/api/v1/runs/{run}/series", http::Scope::read,
             [&service](const http::Request& request) { return list_series(service, request); });
}

}  // namespace babelring::api
