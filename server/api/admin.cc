#include "base/version.h"
#include "server/access/audited.h"
#include "server/api/handlers.h"
#include "server/api/responses.h"
#include "server/api/service.h"
#include "server/artifacts/checkpoint_files.h"
#include "server/launch/control_plane.h"
#include "server/store/home.h"
#include "server/telemetry/prometheus.h"

namespace babelring::api {
namespace {

json::object backup_item(const artifacts::BackupMaker::Status& status) {
  const bool any = status.started_ms != 0;
  const char* state = !any ? "none" : status.running ? "running" : status.failure.empty() ? "done" : "failed";
  return {{"state", state},
          {"file", any ? json::value(status.file.string()) : json::value(nullptr)},
          {"bytes", status.bytes},
          {"started_at", any ? time_or_null(status.started_ms) : json::value(nullptr)},
          {"finished_at", time_or_null(status.finished_ms)},
          {"detail", status.failure}};
}

}  // namespace

/// Answered on the I/O thread: shows that the event loop runs, whatever the database does.
http::Response check_alive(Service&, const http::Request&) {
  return json_response(json::object{{"status", "ok"}}).set("Cache-Control", "no-store");
}

http::Response check_ready(Service& service, const http::Request&) {
  const auto health = service.store.health();
  const bool checkpoint_disk =
      !health.database || artifacts::has_space_for_next(service.store, service.checkpoint_roots);
  const bool well = health.well() && checkpoint_disk;
  const auto word = [](bool good) { return good ? "ok" : "failing"; };
  http::Response response =
      json_response(json::object{{"ready", well},
                                 {"database", word(health.database)},
                                 {"disk", word(health.disk)},
                                 {"checkpoint_disk", word(checkpoint_disk)},
                                 {"queue", word(health.queue)},
                                 {"write_ahead_log", service.store.wal_damage() ? "damaged" : "ok"}});
  response.status = well ? 200 : 503;
  if (!well) response.set("Retry-After", "5");
  response.set("Cache-Control", "no-store");
  return response;
}

http::Response show_version(Service&, const http::Request&) {
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

http::Response show_openapi(Service& service, const http::Request&) {
  return http::text_response(200, "application/json", service.contract);
}

http::Response show_metrics(Service& service, const http::Request&) {
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

http::Response start_backup(Service& service, const http::Request& request) {
  const std::string path = "/api/v1/admin/backup";
  const auto status =
      service.backups.start([&] { access::audited_write(service.audit, request, 202, [](store::Database&) {}, path); });
  http::Response response = json_response(backup_item(status));
  response.status = 202;
  response.set("Location", path);
  return response;
}

http::Response show_backup(Service& service, const http::Request&) {
  return json_response(backup_item(service.backups.status()));
}

}  // namespace babelring::api
