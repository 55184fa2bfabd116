#include "server/api/control.h"

#include <utility>

#include "base/clock.h"
#include "base/records/records.h"
#include "server/api/body.h"
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

namespace {

constexpr std::size_t max_labels = 64, max_label_bytes = 64, max_value_bytes = 256;

/// Escapes a member's name for a JSON pointer (RFC 6901).
std::string pointer_part(std::string_view name) {
  std::string part;
  for (const char c : name) {
    if (c == '~') part += "~0";
    if (c == '/') part += "~1";
    if (c != '~' && c != '/') part += c;
  }
  return part;
}

}  // namespace

launch::ControlPlane& control_of(Service& service) {
  if (service.control == nullptr) throw http::Problem(503, "no_control", "this server does not start runs");
  return *service.control;
}

void publish_run(Service& service, const std::string& run) {
  auto reader = service.store.reader();
  if (const auto found = store::find_run(*reader, run)) {
    service.events.publish(run, "state", to_text(run_item(service, *reader, *found, wall_time_ms())));
  }
}

std::string run_state_digest(json::object item) {
  return state_digest(std::move(item), {"updated_at", "record_age_ms", "stale_since", "update", "epoch", "loss", "nll",
                                        "learning_rate", "step_ms", "target_tokens_per_second", "eta_seconds",
                                        "progress", "health", "best", "last_eval", "hosts"});
}

void require_run_match(const http::Request& request, const store::RunRow& run) {
  json::object item = run_item(run, verdict::Health(), wall_time_ms());  // the tag does not cover its health
  item["config"] = run.config;
  require_match(request, run_state_digest(std::move(item)));
}

void publish_change(Service& service, const std::string& run) {
  publish_run(service, run);
  auto reader = service.store.reader();
  const auto found = store::find_run(*reader, run);
  if (found && store::is_terminal(found->state)) service.tokens.remove_run_tokens(run);
}

http::Response run_response(Service& service, const std::string& run, int status) {
  auto reader = service.store.reader();
  const store::RunRow found = require_run(*reader, run);
  json::object item = run_item(service, *reader, found, wall_time_ms());
  item["config"] = found.config;
  http::Response response = json_response(item);
  response.status = status;
  return response;
}

std::optional<std::string> read_labels(Body& body) {
  const json::value* labels = body.value("labels");
  if (labels == nullptr) return std::nullopt;
  if (!labels->is_object()) Body::refuse("labels", "expected an object of strings");
  const json::object& object = labels->get_object();
  if (object.size() > max_labels)
    Body::refuse("labels", fmt::format("found {}, expected at most {}", object.size(), max_labels));
  for (const auto& [name, value] : object) {
    const bool formed = !name.empty() && name.size() <= max_label_bytes && name.find('=') == name.npos &&
                        value.is_string() && value.get_string().size() <= max_value_bytes;
    if (!formed) {
      Body::refuse("labels", fmt::format("expected names of 1 to {} bytes without '=', and strings of at most {}",
                                         max_label_bytes, max_value_bytes));
    }
    Body::require_name("labels", std::string_view(name));
    Body::require_name("labels/" + pointer_part(name), std::string_view(value.get_string()));
  }
  return to_text(object);
}

}  // namespace babelring::api
