#include <algorithm>
#include <array>
#include <cmath>

#include "nmt/base/clock.h"
#include "server/api/answers.h"
#include "server/api/service.h"

namespace babelring::api {
namespace {

constexpr std::int64_t stale_after_ms = 60'000;
constexpr std::array<std::string_view, 4> states = {"running", "succeeded", "stopped", "failed"};

/// Seconds until max_updates at the speed of the newest step, or null.
json::value eta(const store::RunRow& run) {
  const double step_ms = run.last.value("step_ms");
  if (run.state != "running" || run.max_updates <= 0 || run.last.step == 0 || !std::isfinite(step_ms)) return nullptr;
  const auto left = static_cast<double>(std::max<std::int64_t>(run.max_updates - run.last.step, 0));
  return static_cast<std::int64_t>(std::ceil(left * step_ms / 1000));
}

/// Ranks run in step: the run's rate is the update's tokens over the step's time. A record without the update's tokens
/// tells only what its own rank did, which is the run's rate where that rank is the only one.
double rate_of_all_ranks(const store::RunRow& run) {
  const double all_tokens = run.last.value("update_target_tokens");
  if (all_tokens > 0) return all_tokens * 1000 / run.last.value("step_ms");
  return run.world_size == 1 ? run.last.value("target_tokens_per_second") : store::absent;
}

json::value eval_or_null(const std::optional<store::EvalRow>& eval) {
  return eval ? json::value(eval_item(*eval)) : json::value(nullptr);
}

http::Response list(Service& service, const http::Request& request) {
  store::RunFilter filter;
  filter.state = request.query_value("state").value_or("");
  if (!filter.state.empty() && std::find(states.begin(), states.end(), filter.state) == states.end()) {
    throw http::Problem(400, "bad_parameter", "state: expected running, succeeded, stopped or failed");
  }
  filter.text = request.query_value("q").value_or("");
  filter.before = read_cursor(request).first;
  const std::int64_t limit = page_limit(request);
  filter.limit = limit + 1;  // one more tells whether there is a next page
  auto reader = service.store.reader();
  auto runs = store::list_runs(*reader, filter);
  std::optional<std::string> next;
  if (static_cast<std::int64_t>(runs.size()) > limit) {
    runs.pop_back();
    next = make_cursor(runs.back().number, 0);
  }
  json::array items;
  for (const store::RunRow& run : runs) items.push_back(run_item(run, wall_time_ms()));
  return page_response(request, std::move(items), std::move(next));
}

http::Response show(Service& service, const http::Request& request) {
  auto reader = service.store.reader();
  const store::RunRow run = require_run(*reader, request);
  json::object item = run_item(run, wall_time_ms());
  item["config"] = run.config;
  return json_response(item);
}

}  // namespace

json::object run_item(const store::RunRow& run, std::int64_t now_ms) {
  const bool stale = run.state == "running" && now_ms - run.updated_ms > stale_after_ms;
  json::object item = {{"id", run.id},
                       {"name", run.name},
                       {"state", run.state},
                       {"attempt", run.attempt},
                       {"created_at", format_rfc3339(run.created_ms)},
                       {"started_at", format_rfc3339(run.started_ms)},
                       {"updated_at", format_rfc3339(run.updated_ms)},
                       {"finished_at", time_or_null(run.finished_ms)},
                       {"record_age_ms", now_ms - run.updated_ms},
                       {"stale_since", stale ? time_or_null(run.updated_ms) : json::value(nullptr)},
                       {"detail", run.detail},
                       {"version", run.version},
                       {"world_size", run.world_size},
                       {"hosts", json::array(run.hosts.begin(), run.hosts.end())},
                       {"parameters", run.parameters},
                       {"max_updates", run.max_updates},
                       {"update", run.last.step}};
  for (const char* key : {"epoch", "loss", "nll", "learning_rate", "step_ms"}) item[key] = run.last.value(key);
  item["target_tokens_per_second"] = rate_of_all_ranks(run);
  item["eta_seconds"] = eta(run);
  item["best"] = eval_or_null(run.best_eval);
  item["last_eval"] = eval_or_null(run.last_eval);
  return item;
}

void add_run_routes(http::Router& router, Service& service) {
  router.add("GET", "/api/v1/runs", http::Scope::read,
             [&service](const http::Request& request) { return list(service, request); });
  router.add("GET", "/api/v1/runs/{run}", http::Scope::read,
             [&service](const http::Request& request) { return show(service, request); });
}

}  // namespace babelring::api
