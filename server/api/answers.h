#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "base/json.h"
#include "server/api/service.h"
#include "server/http/message.h"
#include "server/http/problem.h"
#include "server/store/queries.h"
#include "server/verdict/health.h"

namespace babelring::api {

/// 200 with JSON.
http::Response json_response(const json::value& value);
/// {"items": …, "next_cursor": …} and `more`; with a cursor also Link: rel="next".
http::Response page_response(const http::Request& request, json::array items, std::optional<std::string> next,
                             json::object more = {});

// What is taken of a client's numbers: of ranks, and of attempts, updates and times, which all doubles tell apart and
// whose sums and differences cannot overflow.
inline constexpr std::int64_t most_rank = 1'000'000, most_number = std::int64_t{1} << 53;

/// The whole text as a decimal integer, or nothing.
std::optional<std::int64_t> parse_integer(const std::string& text);

/// A query parameter as an integer in [low, high]. Throws Problem 400.
std::int64_t integer_query(const http::Request& request, const std::string& name, std::int64_t low, std::int64_t high,
                           std::int64_t absent);
std::optional<std::int64_t> integer_query(const http::Request& request, const std::string& name, std::int64_t low,
                                          std::int64_t high);
/// `limit`: 50, at most 500.
std::int64_t page_limit(const http::Request& request);

/// Opaque page positions: two numbers. read_cursor gives {0, 0} without one and throws Problem 400 for a foreign one.
std::string make_cursor(std::int64_t a, std::int64_t b);
std::pair<std::int64_t, std::int64_t> read_cursor(const http::Request& request);

/// A page of a list that is sorted by name; the last name tells where the next page begins.
class NamedPage {
 public:
  /// Throws Problem 400 for a bad limit or cursor. The request must outlive this.
  explicit NamedPage(const http::Request& request);
  /// Whether the next thing is on this page: then it is to be added.
  bool takes(std::string_view name);
  void add(json::object item) { items_.push_back(std::move(item)); }
  http::Response response();

 private:
  const http::Request& request_;
  const std::int64_t limit_;
  std::string after_, last_;
  bool more_ = false;
  json::array items_;
};

/// What a failed write is answered: 507 disk_full, else 503 store_failed. Logs the latter.
http::Problem store_problem(const store::SqlFailure& failure);

/// Store::write for handlers: waits for the commit and returns what `change` returns. Throws what `change` throws, and
/// Problem 503 busy, 507 disk_full or 503 store_failed where the database does not take it; nothing is changed then.
template <class F>
auto write(store::Store& store, F change) {
  try {
    return store.write(std::move(change));
  } catch (const store::Busy&) {
    throw http::Problem(503, "busy", "too much waits to be written already; send it again");
  } catch (const store::SqlFailure& failure) {
    throw store_problem(failure);
  }
}
template <class F>
auto write(Service& service, F change) {
  return write(service.store, std::move(change));
}

/// A connection for a query, which ends when its client leaves. `request` must outlive it.
store::Readers::Lease query_reader(Service& service, const http::Request& request);

/// The run named by {run}. Throws Problem 404.
store::RunRow require_run(store::Reader& reader, const http::Request& request);

/// RFC 3339 or null.
json::value time_or_null(std::optional<std::int64_t> time_ms);
json::value integer_or_null(std::optional<std::int64_t> value);

// Items as they appear in answers and in the event stream.
inline constexpr std::int64_t stale_after_ms = 60'000;  // since a running run's last record
json::object run_item(const store::RunRow& run, const verdict::Health& health, std::int64_t now_ms);
/// With its health as it is found now.
json::object run_item(Service& service, store::Reader& reader, const store::RunRow& run, std::int64_t now_ms);
json::object eval_item(const store::EvalRow& eval);
json::object checkpoint_item(const store::CheckpointRow& checkpoint);

}  // namespace babelring::api
