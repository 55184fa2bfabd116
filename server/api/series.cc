#include <algorithm>
#include <map>
#include <set>
#include <sstream>

#include "base/text.h"
#include "server/api/handlers.h"
#include "server/api/query_price.h"
#include "server/api/responses.h"
#include "server/api/series_answer.h"
#include "server/store/series/series.h"

namespace babelring::api {
namespace {

constexpr std::size_t rows_per_chunk = 2000;

/// Streams all stored steps of a run as CSV, in batches of a few thousand rows. Holds no database connection while the
/// client reads, so that a slow client does not block checkpointing of the write-ahead log.
class StepExport : public http::BodyStream {
 public:
  StepExport(Service& service, std::int64_t run, std::vector<std::string> keys)
      : service_(service), run_(run), keys_(std::move(keys)) {}

  std::string next() override {
    std::string csv;
    if (!std::exchange(begun_, true)) {
      csv = "rank,attempt,step,time_ms";
      for (const std::string& key : keys_) csv += ',' + key;
      csv += '\n';
    }
    auto reader = service_.store.reader(store::Store::For::queries);
    store::export_rows(*reader, run_, keys_, rows_per_chunk, cursor_, csv);
    return csv;
  }

 private:
  Service& service_;
  const std::int64_t run_;
  const std::vector<std::string> keys_;
  store::ExportCursor cursor_;
  bool begun_ = false;
};

}  // namespace

http::Response export_steps(Service& service, const http::Request& request) {
  auto reader = query_reader(service, request);
  const store::RunRow run = require_run(*reader, request);
  http::Response response;
  response.set("Content-Type", "text/csv; charset=utf-8").set("Cache-Control", "no-store");
  response.set("Content-Disposition", fmt::format("attachment; filename=\"{}.csv\"", run.id));
  response.body = std::make_shared<StepExport>(service, run.number, store::all_keys(*reader, run.number));
  return response;
}

namespace {

constexpr std::size_t max_series = 64;  // per response

store::Series read(store::Reader& reader, store::SeriesQuery query, const SeriesParams& params) {
  if (params.agg != "lttb" && params.agg != "raw") return store::read_series(reader, query);
  const std::size_t wanted = query.points;
  query.points = max_raw_points;
  query.every_point = true;
  store::Series series = store::read_series(reader, query);
  if (series.too_long) {
    throw http::Problem(422, "query_too_expensive",
                        fmt::format("'{}' has more than {} points in this range, the max for agg={}: ask for a shorter "
                                    "range (from, to)",
                                    query.key, max_raw_points, params.agg));
  }
  return params.agg == "raw" ? series : lttb(series, wanted);
}

/// Size of a point in each format, in bytes.
constexpr std::int64_t text_point_bytes = 56, f64_point_bytes = 24;

/// Refuses a query that costs too much before reading anything.
void require_price(const QueryPrice& price) {
  if (const Status checked = check_price(price); !checked) {
    throw http::Problem(422, "query_too_expensive", checked.error());
  }
}

std::int64_t rows_of(store::Reader& reader, store::SeriesQuery query, const SeriesParams& params) {
  if (params.agg == "lttb") query.points = max_raw_points;  // reads all points to choose from
  return store::estimate_rows_read(reader, query);
}

/// Throws Problem for an empty series: 404 for an unknown key, 416 for an empty range.
void explain_empty(store::Reader& reader, const store::RunRow& run, const std::string& key,
                   const SeriesParams& params) {
  const auto keys = store::all_keys(reader, run.number);
  if (std::find(keys.begin(), keys.end(), key) == keys.end()) {
    throw http::Problem(404, "key_unknown", fmt::format("run {} has no metric '{}'", run.id, key));
  }
  if (params.bounded) throw http::Problem(416, "range_empty", fmt::format("'{}' has no point in this range", key));
}

/// Parses names such as "loss" (all ranks) and "network_tx_bytes_per_second@3" (rank 3). Ignores repeated names.
std::vector<store::SeriesQuery> queries_of(const http::Request& request, const store::SeriesQuery& common) {
  std::vector<store::SeriesQuery> queries;
  std::set<std::string> seen;
  for (const std::string& name : list_query(request, "keys")) {
    if (!seen.insert(name).second) continue;
    store::SeriesQuery& query = queries.emplace_back(common);
    const auto at = name.find('@');
    query.key = name.substr(0, at);
    if (at == std::string::npos) continue;
    query.rank = parse_number<std::int64_t>(std::string_view(name).substr(at + 1));
    if (!query.rank || *query.rank < 0 || *query.rank > max_rank) {
      throw http::Problem(400, "bad_parameter", fmt::format("keys: expected a rank after the @, found '{}'", name));
    }
  }
  if (queries.empty() || queries.size() > max_series) {
    throw http::Problem(
        400, "bad_parameter",
        fmt::format("keys: expected 1 to {} comma-separated keys, found {}", max_series, queries.size()));
  }
  return queries;
}

}  // namespace

http::Response show_series(Service& service, const http::Request& request) {
  const SeriesParams params = read_series_params(request);
  const SeriesForm form = form_of(request);
  auto reader = query_reader(service, request);
  const store::RunRow run = require_run(*reader, request);
  store::SeriesQuery query = query_of(request, run, params);
  query.key = request.parameter("key");
  if (request.query_value("rank") != "all") query.rank = integer_query(request, "rank", 0, max_rank);
  const std::int64_t rows = rows_of(*reader, query, params);
  require_price({.series = 1,
                 .points = std::min<std::int64_t>(static_cast<std::int64_t>(query.points), rows),
                 .rows = rows,
                 .point_bytes = form == SeriesForm::f64 ? f64_point_bytes : text_point_bytes,
                 .every_point = params.agg == "raw"});
  const store::Series series = read(*reader, query, params);
  if (series.points.empty()) explain_empty(*reader, run, query.key, params);
  if (form == SeriesForm::json) return json_response(series_json(query, params, series)).set("Vary", "Accept");
  if (form == SeriesForm::f64) return series_f64(params, series).set("Vary", "Accept");
  return http::text_response(200, "text/csv; charset=utf-8", series_csv(params, series)).set("Vary", "Accept");
}

/// Several series over one range, so that a page with many charts sends one request. A key without any step is empty.
http::Response list_series(Service& service, const http::Request& request) {
  const SeriesParams params = read_series_params(request);
  if (params.agg == "raw" || params.agg == "lttb")
    throw http::Problem(400, "bad_parameter", "agg: raw and lttb are available for a single key only");
  auto reader = query_reader(service, request);
  const store::RunRow run = require_run(*reader, request);
  const auto queries = queries_of(request, query_of(request, run, params));
  QueryPrice price{.series = std::ssize(queries),
                   .points = static_cast<std::int64_t>(queries.front().points),
                   .point_bytes = text_point_bytes};
  require_price(price);
  std::map<std::optional<std::int64_t>, std::int64_t> rows;  // by rank; equal for all keys
  for (const store::SeriesQuery& query : queries) {
    const auto [found, first] = rows.try_emplace(query.rank);
    if (first) found->second = rows_of(*reader, query, params);
    price.rows += std::min(found->second, INT64_MAX / 2 - price.rows);
  }
  require_price(price);
  json::array items;
  for (const store::SeriesQuery& query : queries) {
    items.push_back(series_json(query, params, read(*reader, query, params)));
  }
  return page_response(request, std::move(items), std::nullopt);
}

http::Response list_metric_keys(Service& service, const http::Request& request) {
  const std::int64_t rank = integer_query(request, "rank", 0, max_rank, 0);
  auto reader = query_reader(service, request);
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

}  // namespace babelring::api
