#include "base/clock.h"
#include "server/api/control.h"
#include "server/api/handlers.h"
#include "server/api/responses.h"

namespace babelring::api {
http::Response list_transitions(Service& service, const http::Request& request) {
  auto reader = service.store.reader();
  const store::RunRow run = require_run(*reader, request);
  const std::int64_t limit = page_limit(request);
  auto rows = store::list_transitions(*reader, run.number, read_cursor(request).first, limit + 1);
  std::optional<std::string> next;
  if (static_cast<std::int64_t>(rows.size()) > limit) {
    rows.pop_back();
    next = make_cursor(rows.back().number, 0);
  }
  json::array items;
  for (const store::TransitionRow& row : rows) {
    items.push_back({{"time", format_rfc3339(row.time_ms)},
                     {"attempt", row.attempt},
                     {"from", row.old_state.empty() ? json::value(nullptr) : json::value(row.old_state)},
                     {"to", row.new_state},
                     {"event", row.event},
                     {"cause", row.cause},
                     {"actor", row.actor}});
  }
  return page_response(request, std::move(items), std::move(next));
}

http::Response list_attempts(Service& service, const http::Request& request) {
  auto reader = service.store.reader();
  const store::RunRow run = require_run(*reader, request);
  json::array items;
  for (const store::AttemptRow& row : store::list_attempts(*reader, run.number)) {
    items.push_back({{"attempt", row.attempt},
                     {"launcher", row.launcher},
                     {"pid", row.pid > 0 ? json::value(row.pid) : nullptr},
                     {"job", row.job.empty() ? json::value(nullptr) : json::value(row.job)},
                     {"world_size", row.world_size > 0 ? json::value(row.world_size) : nullptr},
                     {"resumed_from", row.resumed_from.empty() ? json::value(nullptr) : json::value(row.resumed_from)},
                     {"started_at", format_rfc3339(row.started_ms)},
                     {"ended_at", time_or_null(row.ended_ms)},
                     {"exit_code", integer_or_null(row.exit_code)},
                     {"cause", row.cause}});
  }
  return json_response(json::object{{"items", std::move(items)}, {"next_cursor", nullptr}});
}

}  // namespace babelring::api
