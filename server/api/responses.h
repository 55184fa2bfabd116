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
#include "server/store/artifacts.h"
#include "server/store/checkpoints.h"
#include "server/store/runs.h"
#include "server/verdict/health.h"

namespace babelring::api {

/// A 200 response with a JSON body.
http::Response json_response(const json::value& value);
/// A page of a list: {"items": …, "next_cursor": …} and the members of `more`; with a cursor also Link: rel="next".
http::Response page_response(const http::Request& request, json::array items, std::optional<std::string> next,
                             json::object more = {});

// Max values accepted from clients, for ranks, and for attempts, updates and times. Doubles represent the latter
// exactly, and their sums and differences cannot overflow.
inline constexpr std::int64_t max_rank = 1'000'000, max_number = std::int64_t{1} << 53;

/// Parses the whole text as a decimal integer; nullopt if it is not one.
std::optional<std::int64_t> parse_integer(const std::string& text);

/// A query parameter as an integer in [low, high]; `absent`, or nullopt, if it is absent. Throws Problem 400.
std::int64_t integer_query(const http::Request& request, const std::string& name, std::int64_t low, std::int64_t high,
                           std::int64_t absent);
std::optional<std::int64_t> integer_query(const http::Request& request, const std::string& name, std::int64_t low,
                                          std::int64_t high);
/// A query parameter as true or false; nullopt if it is absent or empty. Throws Problem 400.
std::optional<bool> flag_query(const http::Request& request, const std::string& name);
/// The query parameter `limit`: default 50, max 500.
std::int64_t page_limit(const http::Request& request);

/// Opaque page positions of two numbers. read_cursor() returns {0, 0} without a cursor and throws Problem 400 for an
/// invalid one.
std::string make_cursor(std::int64_t a, std::int64_t b);
std::pair<std::int64_t, std::int64_t> read_cursor(const http::Request& request);

/// A page of a list sorted by name. The last name on the page is its cursor.
class NamedPage {
 public:
  /// Throws Problem 400 for a bad limit or cursor. The request must outlive this.
  explicit NamedPage(const http::Request& request);
  /// Whether the next item, named `name`, belongs on this page. If so, the caller must add() it.
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

/// A database connection for a query. The query is cancelled if the client disconnects. `request` must outlive the
/// lease.
store::Readers::Lease query_reader(Service& service, const http::Request& request);

/// The run with the id in path parameter {run}. Throws Problem 404.
store::RunRow require_run(store::Reader& reader, const http::Request& request);

/// The time in RFC 3339, or null.
json::value time_or_null(std::optional<std::int64_t> time_ms);
json::value integer_or_null(std::optional<std::int64_t> value);

// Items as they appear in responses and in the event stream.
json::object run_item(const store::RunRow& run, const verdict::Health& health, std::int64_t now_ms);
/// The same with the run's current health.
json::object run_item(Service& service, store::Reader& reader, const store::RunRow& run, std::int64_t now_ms);
json::object eval_item(const store::EvalRow& eval);
json::object checkpoint_item(const store::CheckpointRow& checkpoint);
json::object artifact_item(const store::ArtifactRow& artifact);  // without its content

}  // namespace babelring::api
