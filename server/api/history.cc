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
  auto next = end_page(rows, limit, [](const store::TransitionRow& last) { return make_cursor(last.number, 0); });
  json::array items;
  for (const store::TransitionRow& row : rows) {
    items.push_back({{"time", format_rfc3339(row.time_ms)},
                     {"attempt", row.attempt},
                     {"from", text_or_null(row.old_state)},
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
                     {"pid", positive_or_null(row.pid)},
                     {"job", text_or_null(row.job)},
                     {"world_size", positive_or_null(row.world_size)},
                     {"resumed_from", text_or_null(row.resumed_from)},
                     {"started_at", format_rfc3339(row.started_ms)},
                     {"ended_at", time_or_null(row.ended_ms)},
                     {"exit_code", integer_or_null(row.exit_code)},
                     {"first_update", integer_or_null(row.first_update)},
                     {"cause", row.cause}});
  }
  return page_response(request, std::move(items), std::nullopt);
}

}  // namespace babelring::api
