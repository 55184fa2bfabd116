#include "base/version.h"

#include "server/api/openapi.h"
#include "server/api/responses.h"
#include "server/api/service.h"
#include "server/artifacts/checkpoint_files.h"
#include "server/launch/control_plane.h"
#include "server/store/schema.h"
#include "server/telemetry/prometheus.h"

namespace babelring::api {
namespace {

http::Response ready(Service& service) {
  const auto health = service.store.health();
  const bool checkpoint_disk =
      !health.database || artifacts::has_space_for_next(service.store, service.checkpoint_roots);
  const bool well = health.well() && checkpoint_disk;
  const auto word = [](bool good) { return good ? "ok" : "failing"; };
  http::Response response = json_response(json::object{{"ready", well},
                                                       {"database", word(health.database)},
                                                       {"disk", word(health.disk)},
                                                       {"checkpoint_disk", word(checkpoint_disk)},
                                                       {"queue", word(health.queue)}});
  response.status = well ? 200 : 503;
  if (!well) response.set("Retry-After", "5");
  response.set("Cache-Control", "no-store");
  return response;
}

http::Response show_version() {
  return json_response(json::object{{"name", "babelring"},
                                    {"version", version},
                                    {"api", "v1"},
                                    {"schema", store::schema_version},
                                    {"limits",
                                     {{"ingest_bytes", 4 << 20},
                                      {"ingest_records", 10'000},
                                      {"page", 500},
                                      {"points", 20'000},
                                      {"raw_points", 1'000'000}}}});
}

http::Response show_metrics(Service& service) {
  const telemetry::Sources sources{.store = service.store,
                                   .events = service.events,
                                   .audit = service.audit,
                                   .access_log = service.access_log,
                                   .lanes = service.lanes.get(),
                                   .translators = service.translators,
                                   .heartbeats = service.control ? &service.control->heartbeats() : nullptr};
  http::Response response = http::text_response(200, "text/plain; version=0.0.4; charset=utf-8",
                                                telemetry::metrics_text(sources, *service.meter));
  response.set("Cache-Control", "no-store");
  return response;
}

/// Adds GET /metrics, and meters the handlers of the routes that were added before.
void add_prometheus_routes(http::Router& router, Service& service) {
  http::Route metrics = http::returning("GET", "/metrics", http::Scope::read,
                                        [&service](const http::Request&) { return show_metrics(service); });
  metrics.open_here = true;
  router.add(std::move(metrics));
  router.wrap([&](const http::Route& route, http::AsyncHandler handler) {
    return telemetry::metered(service.meter, route, std::move(handler));
  });
  router.on_refusal(
      [meter = service.meter](const http::Request& request, const http::Route* route, int status, double seconds) {
        meter->note(route == nullptr ? "none" : route->path, request.method, status, seconds);
      });
}

void add_health_routes(http::Router& router, Service& service, const Contract& contract) {
  // Answered on the I/O thread: it shows that the event loop runs, whatever the database does.
  http::Route alive{"GET", "/healthz", http::Scope::none, 0, true, {}, {}};
  alive.handler = [](const std::shared_ptr<const http::Request>&, const http::Reply& reply) {
    reply(json_response(json::object{{"status", "ok"}}).set("Cache-Control", "no-store"));
  };
  router.add(std::move(alive));
  http::Route readiness =
      http::returning("GET", "/readyz", http::Scope::none, [&service](const http::Request&) { return ready(service); });
  readiness.vital = true;
  router.add(std::move(readiness));
  router.add("GET", "/api/v1/version", http::Scope::none, [](const http::Request&) { return show_version(); });
  router.add("GET", "/api/v1/openapi.json", http::Scope::none, [text = contract.text()](const http::Request&) {
    return http::text_response(200, "application/json", text);
  });
}

}  // namespace

http::Router make_router(Service& service) {
  const Contract contract;
  http::Router router;
  add_health_routes(router, service, contract);
  add_run_routes(router, service);
  add_submit_routes(router, service);
  add_run_action_routes(router, service);
  add_heartbeat_routes(router, service);
  add_history_routes(router, service);
  add_record_routes(router, service);
  add_metric_routes(router, service);
  add_series_routes(router, service);
  add_metrics_query_routes(router, service);
  add_export_routes(router, service);
  add_eval_routes(router, service);
  add_verdict_routes(router, service);
  add_alert_routes(router, service);
  add_rank_routes(router, service);
  add_checkpoint_routes(router, service);
  add_download_routes(router, service);
  add_retention_routes(router, service);
  add_translate_routes(router, service);
  add_backup_routes(router, service);
  add_log_routes(router, service);
  add_event_routes(router, service);
  add_token_routes(router, service);
  add_audit_routes(router, service);
  add_prometheus_routes(router, service);  // the last: meters those before
  router.describe([&contract](http::Route& route) {
    route.gives = contract.answer_types(route.method, route.path);
    route.lane = lane_of(route);
    route.takes = contract.query_names(route.method, route.path);
  });
  return router;
}

}  // namespace babelring::api
