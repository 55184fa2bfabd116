#include "server/access/audited.h"
#include "server/api/handlers.h"
#include "server/api/responses.h"
#include "server/api/service.h"

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
