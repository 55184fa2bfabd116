#include "server/api/control.h"

#include <algorithm>
#include <utility>

#include "base/clock.h"
#include "base/records/records.h"
#include "server/api/body.h"
#include "server/api/handlers.h"
#include "server/api/responses.h"
#include "server/api/series_answer.h"
#include "server/store/logs.h"

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

constexpr std::int64_t last_lines = 20;  // of the log, before an end
// Less is called out of memory. earlyoom kills from 10 % on; the kernel waits until nothing is left.
constexpr double scarce_memory = 0.05;
constexpr double min_lead_s = 1.5;  // ranks report once a second
constexpr double short_s = 10;      // before the end: memory that was scarce then explains it

/// The newest number of a series; nothing if it has none.
std::optional<double> newest_of(const json::object& item, std::string_view name, std::size_t back = 0) {
  const json::value* series = item.if_contains(name);
  if (series == nullptr || !series->is_array() || series->get_array().size() <= back) return std::nullopt;
  const json::array& values = series->get_array();
  const json::value& value = values[values.size() - 1 - back];
  return value.is_number() ? std::optional(value.to_number<double>()) : std::nullopt;
}

std::string gigabytes(double bytes) {
  return fmt::format("{:.1f} GB", bytes / 1e9);
}

/// The least memory that the host had left within the last seconds.
double min_left(const json::object& host) {
  double least = newest_of(host, "memory_left_bytes").value_or(0);
  for (std::size_t back = 1; newest_of(host, "seconds", back).value_or(-short_s) > -short_s; ++back) {
    least = std::min(least, newest_of(host, "memory_left_bytes", back).value_or(least));
  }
  return least;
}

std::string tell_host(const json::object& host) {
  const double limit = host.at("memory_limit_bytes").to_number<double>(), least = min_left(host);
  const bool scarce = limit > 0 && least < scarce_memory * limit;
  std::string text = fmt::format("{}{}: {} of {} free", scarce ? "memory ran out on " : "",
                                 std::string_view(host.at("host").as_string()), gigabytes(least), gigabytes(limit));
  const std::size_t samples = host.at("seconds").as_array().size();
  const double first = newest_of(host, "memory_left_bytes", samples - 1).value_or(least);
  const double before_s = -newest_of(host, "seconds", samples - 1).value_or(0);
  if (before_s > short_s) text += fmt::format(" ({} {:.0f} s before)", gigabytes(first), before_s);
  if (const auto load = newest_of(host, "load")) {
    text += fmt::format(", load {:.1f} on {} processors", *load, host.at("processors").to_number<std::int64_t>());
  }
  if (const auto celsius = newest_of(host, "temperature_celsius")) text += fmt::format(", {:.0f} °C", *celsius);
  return text;
}

/// The sentence about the last minute: the host with the least memory left, and the rank that fell
/// silent before the others.
std::string summary_of(const json::object& box) {
  const json::array &hosts = box.at("hosts").as_array(), &ranks = box.at("ranks").as_array();
  std::string text;
  double scarcest = 2;
  for (const json::value& each : hosts) {
    const json::object& host = each.as_object();
    const double fraction = min_left(host) / std::max(1.0, host.at("memory_limit_bytes").to_number<double>());
    if (fraction >= scarcest) continue;
    scarcest = fraction;
    text = tell_host(host);
  }
  const json::object* first = nullptr;
  for (const json::value& each : ranks) {
    const auto last = [](const json::object& rank) { return newest_of(rank, "seconds").value_or(0); };
    if (first == nullptr || last(each.as_object()) < last(*first)) first = &each.as_object();
  }
  if (first == nullptr) return text;
  const double silent_s = -newest_of(*first, "seconds").value_or(0);
  const std::string name = fmt::format("rank {} on {}", first->at("rank").to_number<std::int64_t>(),
                                       std::string_view(first->at("host").as_string()));
  const std::string took = gigabytes(newest_of(*first, "resident_bytes").value_or(0));
  if (silent_s < min_lead_s) return text + fmt::format("; {} had {}", name, took);
  return text + fmt::format("; {} fell silent {:.0f} s before the others, with {}", name, silent_s, took);
}

json::array last_lines_of(store::Reader& reader, std::int64_t run, std::int64_t attempt) {
  store::LogFilter filter;
  filter.attempt = attempt;
  filter.limit = last_lines;
  filter.tail = true;
  json::array lines;
  for (const store::LogRow& line : store::read_logs(reader, run, filter).lines) lines.push_back(line_item(line));
  return lines;
}

/// Whether ranks of the attempt report, by records or heartbeats: then its box tells of a silence that is over.
bool reports(Service& service, const store::RunRow& run, std::int64_t attempt) {
  if (service.control == nullptr || attempt != run.attempt) return false;
  if (store::has_attempt(run.state) && wall_time_ms() - run.updated_ms < 1000 * fresh_s) return true;
  const launch::Heartbeats& heartbeats = service.control->heartbeats();
  const auto beats = heartbeats.of(run.id, attempt);
  return store::has_attempt(run.state) &&
         std::any_of(beats.begin(), beats.end(), [&](const auto& beat) { return heartbeats.age_s(beat) < fresh_s; });
}

}  // namespace

http::Response list_ends(Service& service, const http::Request& request) {
  auto reader = query_reader(service, request);
  const store::RunRow run = require_run(*reader, request);
  const auto attempts = store::list_attempts(*reader, run.number);
  json::array items;
  for (const store::BlackBoxRow& row : store::list_black_boxes(*reader, run.number)) {
    const Result<json::value> box = parse_json(row.content);
    if (!box.ok() || reports(service, run, row.attempt)) continue;
    json::object item = box->as_object();
    const auto attempt = std::find_if(attempts.begin(), attempts.end(),
                                      [&](const store::AttemptRow& each) { return each.attempt == row.attempt; });
    const bool known = attempt != attempts.end();
    item["attempt"] = row.attempt;
    item["ended_at"] = known ? time_or_null(attempt->ended_ms) : nullptr;
    item["exit_code"] = known ? integer_or_null(attempt->exit_code) : nullptr;
    item["cause"] = known ? attempt->cause : "";
    item["sampled_until"] = format_rfc3339(row.until_ms);
    item["summary"] = summary_of(box->as_object());
    item["log"] = last_lines_of(*reader, run.number, row.attempt);
    items.push_back(std::move(item));
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
