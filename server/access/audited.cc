#include "server/access/audited.h"

#include <spdlog/spdlog.h>

#include "base/clock.h"

namespace babelring::access {

http::Problem store_problem(const store::SqlFailure& failure) {
  if (failure.full()) return {507, "disk_full", "the disk of the database is full; nothing was changed"};
  spdlog::error("write: {}", failure.what());
  return {503, "store_failed", "the database failed; nothing was changed, send it again"};
}

http::WriteNote note_of_server(std::string method, std::string route, std::string object, int status) {
  http::WriteNote note;
  note.time_ms = wall_time_ms();
  note.actor = "server";
  note.method = std::move(method);
  note.route = std::move(route);
  note.object = std::move(object);
  note.status = status;
  note.kept_by_age = true;
  return note;
}

AuditedRow::AuditedRow(AuditLog& audit, const http::Request& request, int status, std::string created)
    : audit_(audit), note_(request.note.get()) {
  if (note_ == nullptr) return;
  row_ = *note_;
  row_.status = status;
  row_.time_ms = wall_time_ms();
  if (!created.empty()) set_created(std::move(created));
}

void AuditedRow::set_created(std::string path) {
  row_.object = std::move(path);
}

void AuditedRow::append(store::Database& database) {
  if (note_ == nullptr) return;
  entry_ = audit_.append(database, row_);
  appended_ = true;
}

void AuditedRow::committed() {
  if (!appended_) return;
  audit_.committed(row_, entry_);
  *note_ = row_;
}

}  // namespace babelring::access
