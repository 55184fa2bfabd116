#include <algorithm>
#include <cmath>
#include <set>

#include "base/records/records.h"
#include "server/api/body.h"
#include "server/api/handlers.h"
#include "server/api/query_price.h"
#include "server/api/series_answer.h"

namespace babelring::api {
namespace {

constexpr std::size_t max_query_series = 50;
constexpr std::int64_t max_points_per_series = 5000;
constexpr std::int64_t finest = 20'000;  // max points per series before alignment to common rows
constexpr std::int64_t row_bytes = 48;   // approximate size of a point in the response

/// The parsed body of a query.
struct Query {
  std::vector<std::string> runs, keys;
  std::optional<std::int64_t> rank;
  std::string x = "step", agg = "minmax";
  double from = std::nan(""), to = std::nan("");
  std::int64_t points = 1200;
};

[[noreturn]] void refuse(const std::string& detail) {
  throw http::Problem(422, "query_refused", detail);
}

std::vector<std::string> texts_of(std::string_view name, const json::value& value) {
  if (!value.is_array() || value.as_array().empty()) refuse(fmt::format("{}: expected a list of strings", name));
  std::vector<std::string> texts;
  for (const json::value& item : value.as_array()) {
    if (!item.is_string()) refuse(fmt::format("{}: expected a list of strings, found {}", name, to_text(item)));
    std::string text(item.as_string());
    if (std::find(texts.begin(), texts.end(), text) == texts.end()) texts.push_back(std::move(text));
  }
  return texts;
}

double number_of(std::string_view name, const json::value& value) {
  if (!value.is_number()) refuse(fmt::format("{}: expected a number, found {}", name, to_text(value)));
  return value.to_number<double>();
}

std::string word_of(std::string_view name, const json::value& value, std::initializer_list<std::string_view> allowed) {
  for (const std::string_view word : allowed) {
    if (value.is_string() && std::string_view(value.get_string()) == word) return std::string(word);
  }
  refuse(fmt::format("{}: expected one of {}, found {}", name, fmt::join(allowed, ", "), to_text(value)));
}

std::int64_t integer_of(std::string_view name, const json::value& value, std::int64_t low, std::int64_t high) {
  const std::int64_t* number = value.if_int64();
  if (number == nullptr || *number < low || *number > high) {
    refuse(fmt::format("{}: expected an integer from {} to {}, found {}", name, low, high, to_text(value)));
  }
  return *number;
}

Query read_query(const http::Request& request) {
  const json::value body = parse_body(request);
  if (!body.is_object()) refuse("expected an object");
  Query query;
  for (const auto& [name, value] : body.as_object()) {
    if (name == "runs") {
      query.runs = texts_of(name, value);
    } else if (name == "keys") {
      query.keys = texts_of(name, value);
    } else if (name == "rank") {
      if (value != "all") query.rank = integer_of(name, value, 0, max_rank);
    } else if (name == "x") {
      query.x = word_of(name, value, {"step", "wall", "rel"});
    } else if (name == "agg") {
      query.agg = word_of(name, value, {"minmax", "avg"});
    } else if (name == "from") {
      query.from = number_of(name, value);
    } else if (name == "to") {
      query.to = number_of(name, value);
    } else if (name == "points") {
      query.points = integer_of(name, value, 2, max_points_per_series);
    } else {
      refuse(fmt::format("'{}': unknown member", std::string_view(name)));
    }
  }
  const std::size_t series = query.runs.size() * query.keys.size();
  if (series == 0 || series > max_query_series) {
    refuse(fmt::format("runs times keys: expected 1 to {} series, found {}", max_query_series, series));
  }
  return query;
}

/// One series and the places of its points on the common axis.
struct Column {
  store::RunRow run;
  store::SeriesQuery query;
  store::Series series;
  std::vector<double> at;
};

/// Throws Problem 422 if the query costs too much.
void check_query_price(const QueryPrice& price, const char* pointer) {
  const Status checked = check_price(price);
  if (!checked) throw http::Problem(422, "query_too_expensive", checked.error(), {{pointer, checked.error()}});
}

/// The finest resolution within the limit on all points, so that rows are filled evenly.
std::size_t points_of(const Query& query) {
  const auto series = static_cast<std::int64_t>(query.runs.size() * query.keys.size());
  return static_cast<std::size_t>(std::max(query.points, std::min(finest, max_query_points / series)));
}

store::SeriesQuery column_query(const Query& query, const store::RunRow& run, const std::string& key) {
  store::SeriesQuery column = range_query(run, query.x, query.from, query.to);
  column.key = key;
  column.rank = query.rank;
  column.points = points_of(query);
  return column;
}

Column read_column(store::Reader& reader, const Query& query, const store::RunRow& run, const std::string& key) {
  Column column{run, column_query(query, run, key), {}, {}};
  column.series = store::read_series(reader, column.query);
  for (const store::SeriesPoint& point : column.series.points) {
    const std::int64_t at = query.x == "step"   ? point.step
                            : query.x == "wall" ? point.time_ms
                                                : point.time_ms - run.started_ms;
    column.at.push_back(static_cast<double>(at));
  }
  return column;
}

/// The rows of all columns: every place with a point in any column, or, if these are too many, bins of equal
/// width with at least one point.
class Rows {
 public:
  Rows(const std::vector<Column>& columns, std::size_t max_rows) : last_(static_cast<double>(max_rows - 1)) {
    std::set<double> places;
    for (const Column& column : columns) {
      exact_ = exact_ && !column.series.sampled;
      places.insert(column.at.begin(), column.at.end());
    }
    exact_ = exact_ && places.size() <= max_rows;
    if (!places.empty()) {
      low_ = *places.begin();
      width_ = (*places.rbegin() - low_) / static_cast<double>(max_rows);
    }
    for (const double place : places) {
      const double start = start_of(place);
      if (starts_.empty() || starts_.back() < start) starts_.push_back(start);
    }
  }

  bool exact() const { return exact_; }
  double width() const { return exact_ ? 0 : width_; }
  const std::vector<double>& starts() const { return starts_; }
  std::size_t row_of(double place) const {
    const auto found = std::upper_bound(starts_.begin(), starts_.end(), start_of(place));
    return static_cast<std::size_t>(found - starts_.begin()) - 1;
  }

 private:
  double start_of(double place) const {
    if (exact_ || width_ <= 0) return place;
    return low_ + std::min(std::floor((place - low_) / width_), last_) * width_;  // the last bin includes its end
  }

  bool exact_ = true;
  double low_ = 0, width_ = 0, last_ = 0;
  std::vector<double> starts_;
};

json::object column_json(const Column& column, const Rows& rows, const Query& query) {
  struct Cell {
    double min = 0, max = 0, sum = 0, weight = 0;
    std::int64_t finite = 0;
  };
  std::vector<Cell> cells(rows.starts().size());
  for (std::size_t i = 0; i < column.at.size(); ++i) {
    const store::SeriesPoint& point = column.series.points[i];
    if (point.finite == 0) continue;
    Cell& cell = cells[rows.row_of(column.at[i])];
    cell.min = cell.finite == 0 ? point.min : std::min(cell.min, point.min);
    cell.max = cell.finite == 0 ? point.max : std::max(cell.max, point.max);
    cell.sum = rows.exact() ? point.average : cell.sum + point.average * static_cast<double>(point.count);
    cell.weight = rows.exact() ? 1 : cell.weight + static_cast<double>(point.count);
    cell.finite += point.finite;
  }
  json::array min, average, max;
  for (const Cell& cell : cells) {
    const bool any = cell.finite > 0;
    average.push_back(any ? json::value(cell.sum / cell.weight) : json::value(nullptr));
    min.push_back(any ? json::value(cell.min) : json::value(nullptr));
    max.push_back(any ? json::value(cell.max) : json::value(nullptr));
  }
  json::object item = {{"run", column.run.id},
                       {"key", column.query.key},
                       {"rank", query.rank ? json::value(*query.rank) : json::value("all")},
                       {"aggregate", store::to_string(store::rank_aggregate(column.query.key))},
                       {"total", column.series.total},
                       {"non_finite", non_finite_json(column.series)}};
  item[rows.exact() ? "value" : "avg"] = std::move(average);
  if (!rows.exact() && query.agg == "minmax") {
    item["min"] = std::move(min);
    item["max"] = std::move(max);
  }
  return item;
}

}  // namespace

http::Response query_metrics(Service& service, const http::Request& request) {
  const Query query = read_query(request);
  QueryPrice price{
      .series = std::ssize(query.runs) * std::ssize(query.keys), .points = query.points, .point_bytes = row_bytes};
  check_query_price(price, "/points");
  std::vector<store::RunRow> runs;
  auto reader = query_reader(service, request);
  for (const std::string& id : query.runs) {
    store::RunRow run = require_run(*reader, id);
    const std::int64_t reads = store::estimate_rows_read(*reader, column_query(query, run, query.keys.front()));
    price.rows += std::min(reads, max_query_rows + 1) * std::ssize(query.keys);
    runs.push_back(std::move(run));
  }
  check_query_price(price, "/runs");
  std::vector<Column> columns;
  for (const store::RunRow& run : runs) {
    for (const std::string& key : query.keys) columns.push_back(read_column(*reader, query, run, key));
  }
  const Rows rows(columns, static_cast<std::size_t>(query.points));
  json::array items;
  for (const Column& column : columns) items.push_back(column_json(column, rows, query));
  return json_response(json::object{{"x", query.x},
                                    {"exact", rows.exact()},
                                    {"width", rows.width()},
                                    {"at", json::array(rows.starts().begin(), rows.starts().end())},
                                    {"items", std::move(items)}});
}

}  // namespace babelring::api
