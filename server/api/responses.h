#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/json.h"
#include "insight/verdict/health.h"
#include "server/api/query.h"
#include "server/api/service.h"
#include "server/http/message.h"
#include "server/http/reply.h"
#include "server/store/checkpoints.h"
#include "server/store/runs.h"

namespace babelring::api {

/// A 200 response with a JSON body.
http::Response json_response(const json::value& value);
/// A page of a list: {"items": …, "next_cursor": …} and the members of `more`; with a cursor also Link: rel="next".
http::Response page_response(const http::Request& request, json::array items, std::optional<std::string> next,
                             json::object more = {});

/// Ends a page of rows that were read with a limit of one more: removes the row beyond `limit` and returns the cursor
/// of the next page, or nothing if this page is the last. `cursor_of` makes a cursor of the page's last row.
template <class Row, class CursorOf>
std::optional<std::string> end_page(std::vector<Row>& rows, std::int64_t limit, CursorOf cursor_of) {
  if (static_cast<std::int64_t>(rows.size()) <= limit) return std::nullopt;
  rows.pop_back();
  return cursor_of(rows.back());
}

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

/// The problem 404 for a run that does not exist.
http::Problem no_run(const std::string& id);
/// Throws Problem 403 if the request's token is for one run, and that is another one.
void require_reach(const http::Request& request, std::string_view run);
/// Throws no_run() if `id` cannot be the id of a run.
void require_run_id(const std::string& id);
/// The run with this id, or with the id in path parameter {run}. Throws Problem 404.
store::RunRow require_run(store::Reader& reader, const std::string& id);
store::RunRow require_run(store::Reader& reader, const http::Request& request);

/// The time in RFC 3339, or null.
json::value time_or_null(std::optional<std::int64_t> time_ms);
/// The value, or null if it is absent.
json::value integer_or_null(std::optional<std::int64_t> value);
json::value number_or_null(std::optional<double> value);
/// The value, or null if it is 0, which means unknown.
json::value positive_or_null(std::int64_t value);
/// The text, or null if it is empty.
json::value text_or_null(const std::string& text);

// Items as they appear in responses and in the event stream.
json::object run_item(const store::RunRow& run, const verdict::Health& health, std::int64_t now_ms);
/// The same with the run's current health.
json::object run_item(Service& service, store::Reader& reader, const store::RunRow& run, std::int64_t now_ms);
json::object eval_item(const store::EvalRow& eval);
json::object line_item(const store::LogRow& log);
json::object checkpoint_item(const store::CheckpointRow& checkpoint);
json::object artifact_item(const store::ArtifactRow& artifact);  // without its content

}  // namespace babelring::api
