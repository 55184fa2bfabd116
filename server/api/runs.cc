#include "server/api/runs.h"

#include <algorithm>
#include <boost/json/object.hpp>
#include <charconv>
#include <cmath>
#include <limits>
#include <optional>
#include <utility>

#include "base/clock.h"
#include "base/digest.h"
#include "base/log.h"
#include "base/text.h"
#include "server/api/body.h"
#include "server/api/control.h"
#include "server/api/handlers.h"
#include "server/api/responses.h"
#include "server/store/attempts.h"
#include "server/verdict/run_health.h"

namespace babelring::api {
namespace {

struct Progress {
  std::optional<double> fraction, seconds_left;
};

/// The progress from the newest record. For workers that do not report it, the fraction of max_updates and the step
/// time of the newest update.
Progress progress_of(const store::RunRow& run) {
  Progress progress;
  const double done = run.last.value("fraction_done"), left = run.last.value("seconds_left");
  if (done > 0) {
    progress.fraction = std::min(done, 1.0);
    if (left > 0 || done >= 1) progress.seconds_left = left;
  } else if (run.max_updates > 0) {
    const auto update = static_cast<double>(run.last.step), end = static_cast<double>(run.max_updates);
    progress.fraction = std::clamp(update / end, 0.0, 1.0);
    const double step_ms = run.last.value("step_ms");
    if (update > 0 && std::isfinite(step_ms)) progress.seconds_left = std::max(end - update, 0.0) * step_ms / 1000;
  }
  if (run.state == store::RunState::succeeded) progress.fraction = 1;
  return progress;
}

std::string end_of(const store::RunRow& run) {
  if (!run.end.empty()) return run.end;
  return run.max_updates > 0 ? grouped(static_cast<double>(run.max_updates)) + " updates" : "";
}

}  // namespace

json::object progress_item(const store::RunRow& run, bool stale) {
  const Progress progress = progress_of(run);
  const bool trains = run.state == store::RunState::running && !stale;
  json::value left = nullptr;
  if (trains && progress.seconds_left) left = static_cast<std::int64_t>(std::ceil(*progress.seconds_left));
  return {{"fraction", progress.fraction ? json::value(*progress.fraction) : json::value(nullptr)},
          {"seconds_left", std::move(left)},
          {"end", end_of(run)},
          {"at_latest", run.may_end_sooner}};
}

std::shared_ptr<const RunText> RunTexts::find(const std::string& run, std::uint64_t revision,
                                              std::int64_t now_ms) const {
  const std::lock_guard lock(mutex_);
  const auto found = texts_.find(run);
  if (found == texts_.end() || found->second->revision != revision || now_ms > found->second->holds_until_ms) {
    return nullptr;
  }
  return found->second;
}

void RunTexts::keep(const std::string& run, RunText text) {
  if (text.before_age.size() > max_bytes) return;
  auto held = std::make_shared<const RunText>(std::move(text));
  const std::lock_guard lock(mutex_);
  if (texts_.size() >= max_texts && !texts_.contains(run)) texts_.clear();
  texts_[run] = std::move(held);
}

RunText run_text(const store::RunRow& run, const verdict::Health& health, std::uint64_t revision, std::int64_t now_ms) {
  json::object item = run_item(run, health, now_ms);
  item["config"] = run.config;
  const std::string state =
      run_state_digest(item);  // before the members are reordered, as require_run_match() computes it
  // Move it to the end, where it can be replaced without a search: a label may also be named record_age_ms.
  item.erase("record_age_ms");
  item["record_age_ms"] = 0;
  const std::string text = to_text(item);
  const std::size_t age = text.rfind(':') + 1;
  RunText made;
  made.revision = revision;
  made.before_age = text.substr(0, age);
  made.tag = state + '-' + digest_of(made.before_age);
  made.updated_ms = run.updated_ms;
  const bool becomes_stale =
      run.state == store::RunState::running && now_ms - run.updated_ms <= verdict::stale_after_ms;
  made.holds_until_ms =
      becomes_stale ? run.updated_ms + verdict::stale_after_ms : std::numeric_limits<std::int64_t>::max();
  return made;
}

http::Response run_answer(const http::Request& request, const RunText& text, std::int64_t now_ms) {
  char digits[24];
  const std::string_view age(digits, std::to_chars(digits, digits + sizeof digits, now_ms - text.updated_ms).ptr);
  std::string body;
  body.reserve(text.before_age.size() + age.size() + 1);
  body.append(text.before_age).append(age).append("}");
  // The tag covers the age, so that no client keeps an outdated one.
  std::string etag;
  etag.reserve(text.tag.size() + age.size() + 3);
  etag.append("\"").append(text.tag).append("-").append(age).append("\"");
  return tagged_response(request, std::move(body), std::move(etag));
}

namespace {

/// All ranks run in lockstep, so the run's rate is the update's tokens divided by the step time. A record without the
/// update's tokens has only its own rank's rate, which is the run's rate if there is one rank.
double rate_of_all_ranks(const store::RunRow& run) {
  const double all_tokens = run.last.value("update_target_tokens");
  if (all_tokens > 0) return all_tokens * 1000 / run.last.value("step_ms");
  return run.world_size == 1 ? run.last.value("target_tokens_per_second") : store::absent;
}

/// From the start to the end, or to the newest record; both are on the clock of the records. Null before the first one.
json::value elapsed_seconds(const store::RunRow& run) {
  const std::int64_t until_ms = run.finished_ms.value_or(run.reported_ms);
  if (until_ms == 0) return nullptr;
  return static_cast<double>(std::max<std::int64_t>(0, until_ms - run.started_ms)) / 1000;
}

/// Time budget for the health of all runs in a list. The rest is computed in later requests.
constexpr verdict::HealthCache::Milliseconds list_health_time{25};

const launch::Heartbeats* heartbeats_of(const Service& service) {
  return service.control == nullptr ? nullptr : &service.control->heartbeats();
}

verdict::Health health_of(Service& service, store::Reader& reader, const store::RunRow& run, std::int64_t now_ms) {
  verdict::HealthCache::Budget budget;
  return service.health.health(reader, run, store::lasting_alerts(reader, run.id), heartbeats_of(service), now_ms,
                               budget);
}

json::object health_item(const verdict::Health& health) {
  json::array parts;
  for (const auto& [topic, level, text, action] : health.parts) {
    parts.push_back({{"topic", verdict::to_string(topic)},
                     {"level", verdict::to_string(level)},
                     {"text", text},
                     {"action", text_or_null(action)}});
  }
  return {{"level", verdict::to_string(health.level)},
          {"headline", health.headline},
          {"action", text_or_null(health.action)},
          {"parts", std::move(parts)}};
}

json::value eval_or_null(const std::optional<store::EvalRow>& eval) {
  return eval ? json::value(eval_item(*eval)) : json::value(nullptr);
}

/// Parses `name` or `name=value`.
void read_label(const http::Request& request, store::RunFilter& filter) {
  const std::string label = request.query_value("label").value_or("");
  const auto equals = label.find('=');
  filter.label_name = label.substr(0, equals);
  filter.label_has_value = equals != std::string::npos;
  if (filter.label_has_value) filter.label_value = label.substr(equals + 1);
}

/// Parses a comma-separated list of states.
std::vector<store::RunState> read_states(const http::Request& request) {
  std::vector<store::RunState> states;
  for (const std::string& name : list_query(request, "state")) {
    const auto state = store::run_state_of(name);
    if (!state) {
      std::vector<std::string_view> names;
      for (const store::RunState known : store::all_run_states()) names.push_back(store::name_of(known));
      throw http::Problem(
          400, "bad_parameter",
          fmt::format("state: expected one of {}, found '{}'", fmt::join(names, ", "), printable(name.substr(0, 100))));
    }
    states.push_back(*state);
  }
  return states;
}

store::RunFilter read_filter(const http::Request& request) {
  using Order = store::RunFilter::Order;
  store::RunFilter filter;
  filter.states = read_states(request);
  filter.text = request.query_value("q").value_or("");
  read_label(request, filter);
  filter.created_after_ms = integer_query(request, "created_after", 0, max_number, 0);
  filter.updated_after_ms = integer_query(request, "updated_after", 0, max_number, 0);
  filter.archived = flag_query(request, "archived");
  const std::string sort = request.query_value("sort").value_or("-created_at");
  if (sort != "-created_at" && sort != "created_at" && sort != "-updated_at") {
    throw http::Problem(400, "bad_parameter", "sort: expected -created_at, created_at or -updated_at");
  }
  filter.order = sort == "created_at"    ? Order::oldest_first
                 : sort == "-updated_at" ? Order::last_changed_first
                                         : Order::newest_first;
  filter.after = read_cursor(request);
  return filter;
}

/// The members named by `fields`, in its order; empty without it.
std::vector<std::string> read_fields(const http::Request& request) {
  std::vector<std::string> fields = list_query(request, "fields");
  const json::object every = run_item({}, {}, 0);
  for (const std::string& field : fields) {
    if (every.contains(field)) continue;
    throw http::Problem(400, "bad_parameter",
                        fmt::format("fields: runs in a list have no member '{}'", printable(field.substr(0, 100))));
  }
  return fields;
}

json::object parts_of(const json::object& item, const std::vector<std::string>& fields) {
  json::object parts;
  for (const std::string& field : fields) parts[field] = item.at(field);
  return parts;
}

}  // namespace

http::Response list_runs(Service& service, const http::Request& request) {
  const std::vector<std::string> fields = read_fields(request);
  store::RunFilter filter = read_filter(request);
  const std::int64_t limit = page_limit(request);
  filter.limit = limit + 1;  // one more shows whether there is a next page
  auto reader = service.store.reader();
  auto runs = store::list_runs(*reader, filter);
  auto next = end_page(runs, limit, [&](const store::RunRow& last) {
    const bool changed = filter.order == store::RunFilter::Order::last_changed_first;
    return changed ? make_cursor(last.updated_ms, last.number) : make_cursor(last.number, 0);
  });
  const bool with_health = fields.empty() || std::find(fields.begin(), fields.end(), "health") != fields.end();
  const auto alerts = with_health ? store::lasting_alerts(*reader, "") : std::vector<store::AlertRow>();
  verdict::HealthCache::Budget budget{.time = with_health ? list_health_time : verdict::HealthCache::Milliseconds(0),
                                      .max_age = std::chrono::seconds(10)};
  json::array items;
  for (const store::RunRow& run : runs) {
    const std::int64_t now_ms = wall_time_ms();
    const auto health = service.health.health(*reader, run, alerts, heartbeats_of(service), now_ms, budget);
    json::object item = run_item(run, health, now_ms);
    items.push_back(fields.empty() ? std::move(item) : parts_of(item, fields));
  }
  json::object more;
  if (!fields.empty()) more["fields"] = json::array(fields.begin(), fields.end());
  return page_response(request, std::move(items), std::move(next), std::move(more));
}

http::Response show_run(Service& service, const http::Request& request) {
  const std::uint64_t revision = service.store.revision();  // read first, so that the run is at least as new
  auto reader = service.store.reader();
  const store::RunRow run = require_run(*reader, request);
  const std::int64_t now_ms = wall_time_ms();
  RunText text = run_text(run, health_of(service, *reader, run, now_ms), revision, now_ms);
  http::Response response = run_answer(request, text, now_ms);
  service.run_texts.keep(run.id, std::move(text));
  return response;
}

/// The cached response, if there was no commit since it was made.
std::optional<http::Response> show_cached_run(const Service& service, const http::Request& request) {
  const std::int64_t now_ms = wall_time_ms();
  const auto text = service.run_texts.find(request.parameter("run"), service.store.revision(), now_ms);
  if (!text) return std::nullopt;
  return run_answer(request, *text, now_ms);
}

json::object run_item(Service& service, store::Reader& reader, const store::RunRow& run, std::int64_t now_ms) {
  return run_item(run, health_of(service, reader, run, now_ms), now_ms);
}

json::object run_item(const store::RunRow& run, const verdict::Health& health, std::int64_t now_ms) {
  const bool stale = verdict::is_stale(run, now_ms);
  json::object progress = progress_item(run, stale);
  json::object item = {{"id", run.id},
                       {"name", run.name},
                       {"state", name_of(run.state)},
                       {"attempt", run.attempt},
                       {"created_at", format_rfc3339(run.created_ms)},
                       {"started_at", format_rfc3339(run.started_ms)},
                       {"updated_at", format_rfc3339(run.updated_ms)},
                       {"finished_at", time_or_null(run.finished_ms)},
                       {"record_age_ms", now_ms - run.updated_ms},
                       {"elapsed_seconds", elapsed_seconds(run)},
                       {"stale_since", stale ? time_or_null(run.updated_ms) : json::value(nullptr)},
                       {"detail", run.detail},
                       {"version", run.version},
                       {"world_size", run.world_size},
                       {"hosts", json::array(run.hosts.begin(), run.hosts.end())},
                       {"parameters", run.parameters},
                       {"max_updates", run.max_updates},
                       {"profile", run.profile},
                       {"labels", parse_json(run.labels).value()},
                       {"notes", run.notes},
                       {"archived", run.archived},
                       {"emulated", run.emulated},
                       {"deleted_at", time_or_null(run.deleted_ms)},
                       {"restarts", run.restarts.value_or(run.faults)},
                       {"max_restarts", integer_or_null(run.max_restarts)},
                       {"update", run.last.step}};
  for (const char* key : {"epoch", "loss", "nll", "learning_rate", "step_ms"}) item[key] = run.last.value(key);
  item["target_tokens_per_second"] = rate_of_all_ranks(run);
  item["eta_seconds"] = progress["seconds_left"];
  item["progress"] = std::move(progress);
  item["health"] = health_item(health);
  item["best"] = eval_or_null(run.best_eval);
  item["last_eval"] = eval_or_null(run.last_eval);
  return item;
}

}  // namespace babelring::api
