#include "server/api/routes.h"

#include <array>
#include <string>
#include <utility>

#include "server/api/body.h"
#include "server/api/handlers.h"
#include "server/api/openapi.h"

namespace babelring::api {
namespace {

using http::Lane;
using http::Scope;

constexpr std::size_t max_empty_body_kib = 1;

constexpr auto table = std::to_array<RouteEntry>({
    {"GET", "/healthz", Scope::none, check_alive, {.on_io_thread = true}},
    {"GET", "/readyz", Scope::none, check_ready, {.lane = Lane::health, .vital = true}},
    {"GET", "/api/v1/version", Scope::none, show_version},
    {"GET", "/api/v1/openapi.json", Scope::none, show_openapi},

    {"GET", "/api/v1/runs", Scope::read, list_runs},
    {"GET", "/api/v1/runs/{run}", Scope::read, show_run, {.from_cache = show_cached_run}},
    {"POST", "/api/v1/runs", Scope::operate, submit_run, {.lane = Lane::process, .max_body_kib = 1280}},
    {"POST", "/api/v1/runs:validate", Scope::read, validate_run, {.lane = Lane::process, .max_body_kib = 1280}},
    {"GET", "/api/v1/profiles", Scope::read, list_profiles},
    {"POST", "/api/v1/runs/{run}/stop", Scope::operate, stop_run, {.max_body_kib = 128}},
    {"POST", "/api/v1/runs/{run}/resume", Scope::operate, resume_run, {.max_body_kib = 128}},
    {"POST", "/api/v1/runs/{run}/checkpoint", Scope::operate, request_checkpoint, {.empty_body = true}},
    {"GET", "/api/v1/runs/{run}/trace", Scope::read, show_trace_request},
    {"POST", "/api/v1/runs/{run}/trace", Scope::operate, request_trace, {.max_body_kib = 64}},
    {"PATCH", "/api/v1/runs/{run}", Scope::operate, edit_run, {.max_body_kib = 128}},
    {"DELETE", "/api/v1/runs/{run}", Scope::operate, delete_run},

    {"POST",
     "/api/v1/runs/{run}/heartbeat",
     Scope::ingest,
     add_heartbeat,
     {.lane = Lane::heartbeat, .max_body_kib = 64}},
    {"GET", "/api/v1/nodes", Scope::read, list_nodes},
    {"GET", "/api/v1/nodes/{host}", Scope::read, show_node},
    {"GET", "/api/v1/runs/{run}/transitions", Scope::read, list_transitions},
    {"GET", "/api/v1/runs/{run}/attempts", Scope::read, list_attempts},
    {"GET", "/api/v1/runs/{run}/ends", Scope::read, list_ends, {.lane = Lane::query}},

    {"POST", "/api/v1/runs/{run}/records", Scope::ingest, ingest_records, {.lane = Lane::ingest, .max_body_kib = 4096}},
    {"GET", "/api/v1/runs/{run}/metrics", Scope::read, list_metric_keys, {.lane = Lane::query}},
    {"GET", "/api/v1/runs/{run}/metrics/{key}", Scope::read, show_series, {.lane = Lane::query}},
    {"GET", "/api/v1/runs/{run}/series", Scope::read, list_series, {.lane = Lane::query}},
    {"POST", "/api/v1/metrics/query", Scope::read, query_metrics, {.lane = Lane::query, .max_body_kib = 64}},
    {"GET", "/api/v1/runs/{run}/metrics.csv", Scope::read, export_steps, {.lane = Lane::query}},
    {"GET", "/api/v1/runs/{run}/evals", Scope::read, list_evals, {.lane = Lane::query}},
    {"POST", "/api/v1/runs/{run}/evals", Scope::ingest, add_eval, {.max_body_kib = 4096, .operators_too = true}},
    {"GET", "/api/v1/evals/{eval}", Scope::read, show_eval, {.checks_run = true}},
    {"GET", "/api/v1/runs/{run}/comparison", Scope::read, compare_runs},
    {"GET", "/api/v1/runs/{run}/verdict", Scope::read, show_verdict, {.lane = Lane::query}},
    {"GET", "/api/v1/runs/{run}/report", Scope::read, show_report, {.lane = Lane::query}},
    {"GET", "/api/v1/runs/{run}/what-if", Scope::read, show_what_if, {.lane = Lane::query}},

    {"GET", "/api/v1/alert-rules", Scope::read, list_alert_rules},
    {"PUT", "/api/v1/alert-rules", Scope::operate, replace_alert_rules, {.max_body_kib = 64}},
    {"GET", "/api/v1/alerts", Scope::read, list_alerts, {.checks_run = true}},
    {"POST", "/api/v1/alerts/{alert}/ack", Scope::operate, acknowledge_alert, {.empty_body = true}},
    {"GET", "/api/v1/webhooks", Scope::admin, list_webhooks},
    {"POST", "/api/v1/webhooks", Scope::admin, create_webhook, {.max_body_kib = 64}},
    {"GET", "/api/v1/webhooks/{webhook}", Scope::admin, show_webhook},
    {"PATCH", "/api/v1/webhooks/{webhook}", Scope::admin, edit_webhook, {.max_body_kib = 64}},
    {"DELETE", "/api/v1/webhooks/{webhook}", Scope::admin, delete_webhook},
    {"POST", "/api/v1/webhooks/{webhook}/test", Scope::admin, test_webhook, {.empty_body = true}},
    {"GET", "/api/v1/webhooks/{webhook}/deliveries", Scope::admin, list_deliveries},
    {"GET", "/api/v1/runs/{run}/ranks", Scope::read, list_ranks},

    {"GET", "/api/v1/runs/{run}/checkpoints", Scope::read, list_checkpoints},
    {"GET", "/api/v1/checkpoints/{checkpoint}", Scope::read, show_checkpoint},
    {"DELETE", "/api/v1/checkpoints/{checkpoint}", Scope::operate, delete_checkpoint},
    {"PUT", "/api/v1/checkpoints/{checkpoint}/pin", Scope::operate, pin_checkpoint},
    {"DELETE", "/api/v1/checkpoints/{checkpoint}/pin", Scope::operate, unpin_checkpoint},
    {"GET", "/api/v1/checkpoints/{checkpoint}/files/{name}", Scope::read, download_file},
    {"GET", "/api/v1/checkpoints/{checkpoint}/archive.tar", Scope::read, download_archive},
    {"GET", "/api/v1/checkpoints/{checkpoint}/SHA256SUMS", Scope::read, show_sums},
    {"GET", "/api/v1/runs/{run}/artifacts", Scope::read, list_artifacts},
    {"GET", "/api/v1/artifacts/{artifact}", Scope::read, show_artifact},
    {"GET", "/api/v1/artifacts/{artifact}/file", Scope::read, download_artifact},
    {"GET", "/api/v1/runs/{run}/retention", Scope::read, show_retention},
    {"PUT", "/api/v1/runs/{run}/retention", Scope::operate, replace_retention, {.max_body_kib = 16}},
    {"GET", "/api/v1/runs/{run}/exports", Scope::read, list_exports},
    {"POST", "/api/v1/checkpoints/{checkpoint}/exports", Scope::read, begin_export, {.max_body_kib = 4}},
    {"GET", "/api/v1/checkpoints/{checkpoint}/exports/{export}", Scope::read, show_export},
    {"GET", "/api/v1/checkpoints/{checkpoint}/exports/{export}/archive", Scope::read, download_export},
    {"GET", "/api/v1/checkpoints/{checkpoint}/exports/{export}/files/{name}", Scope::read, download_export_file},
    {"GET", "/api/v1/checkpoints/{checkpoint}/exports/{export}/files/{folder}/{name}", Scope::read,
     download_export_file},
    {"POST", "/api/v1/checkpoints/{checkpoint}/translate", Scope::read, translate_text, {.max_body_kib = 576}},

    {"POST", "/api/v1/admin/backup", Scope::admin, start_backup, {.lane = Lane::query, .empty_body = true}},
    {"GET", "/api/v1/admin/backup", Scope::admin, show_backup},
    {"GET", "/api/v1/runs/{run}/logs", Scope::read, list_logs, {.lane = Lane::query}},
    {"GET", "/api/v1/events", Scope::read, stream_events, {.checks_run = true}},

    {"GET", "/api/v1/tokens", Scope::admin, list_tokens},
    {"POST", "/api/v1/tokens", Scope::admin, create_token, {.max_body_kib = 4}},
    {"GET", "/api/v1/tokens/self", Scope::read, show_own_token, {.checks_run = true}},
    {"DELETE", "/api/v1/tokens/{token}", Scope::admin, delete_token},
    {"GET", "/api/v1/audit", Scope::admin, list_audit, {.lane = Lane::query}},
    {"GET", "/api/v1/audit.jsonl", Scope::admin, export_audit, {.lane = Lane::query}},
    {"GET", "/metrics", Scope::read, show_metrics, {.loopback_without_token = true}},
});

http::AsyncHandler bind(Service& service, const RouteEntry& entry) {
  if (const auto* handler = std::get_if<AsyncHandler>(&entry.handler)) {
    return [&service, handle = *handler](const std::shared_ptr<const http::Request>& request,
                                         const http::Reply& reply) { handle(service, request, reply); };
  }
  return [&service, handle = std::get<Handler>(entry.handler), empty_body = entry.options.empty_body](
             const std::shared_ptr<const http::Request>& request, const http::Reply& reply) {
    if (empty_body) Body(*request, true).finish();
    reply(handle(service, *request));
  };
}

http::Route make_route(Service& service, const Contract& contract, const RouteEntry& entry) {
  const RouteOptions& options = entry.options;
  http::Route route;
  route.method = entry.method;
  route.path = entry.path;
  route.scope = entry.scope;
  route.max_body_bytes = (options.empty_body ? max_empty_body_kib : options.max_body_kib) << 10;
  route.lane = options.lane;
  route.on_io_thread = options.on_io_thread;
  route.vital = options.vital;
  route.loopback_without_token = options.loopback_without_token;
  route.operators_too = options.operators_too;
  route.checks_run = options.checks_run;
  route.produces = contract.answer_types(route.method, route.path);
  route.query_names = contract.query_names(route.method, route.path);
  route.handler = telemetry::metered(service.meter, route, bind(service, entry));
  if (options.from_cache != nullptr) {
    route.from_cache = [&service, cached = options.from_cache](const http::Request& request) {
      return cached(service, request);
    };
  }
  return route;
}

}  // namespace

std::span<const RouteEntry> route_table() {
  return table;
}

http::Router make_router(Service& service) {
  const Contract contract;
  service.contract = contract.text();
  http::Router router;
  for (const RouteEntry& entry : table) router.add(make_route(service, contract, entry));
  router.on_refusal(
      [meter = service.meter](const http::Request& request, const http::Route* route, int status, double seconds) {
        meter->count(route == nullptr ? "none" : route->path, request.method, status, seconds);
      });
  return router;
}

}  // namespace babelring::api
