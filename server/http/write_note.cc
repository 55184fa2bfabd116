#include "server/http/write_note.h"

#include <utility>

#include "base/clock.h"
#include "base/log.h"
#include "base/secret.h"

namespace babelring::http {
namespace {

constexpr std::size_t max_object_bytes = 512;

}  // namespace

std::shared_ptr<WriteNote> begin_note(const Request& request, const Route& route, bool kept_out) {
  const bool steers = route.scope == Scope::operate || route.scope == Scope::admin;
  if (!writes(request) || !(steers || route.scope == Scope::ingest)) return nullptr;
  const std::string_view path = std::string_view(request.target).substr(0, request.target.find('?'));
  auto note = std::make_shared<WriteNote>();
  note->actor = request.actor;
  if (request.caller) note->token = request.caller->token;
  note->method = request.method;
  note->route = route.path;
  note->object = printable(std::string_view(redact(path)).substr(0, max_object_bytes));
  note->request = redact(request.id);
  note->address = request.address;
  note->ingest = route.scope == Scope::ingest;
  note->kept_by_age = steers && !kept_out;
  return note;
}

void finish_note(AuditTrail& audit, const Request& request, const Response& response, std::function<void()> then) {
  // If the stored note has another status, the write has failed after its commit: the failure gets a second entry.
  if (!request.note || (request.note->kept && request.note->status == response.status)) {
    if (then) then();
    return;
  }
  WriteNote note = *request.note;
  note.time_ms = wall_time_ms();
  note.status = response.status;
  const std::string_view created = response.header("Location");
  if (!created.empty()) note.object = printable(created.substr(0, max_object_bytes));
  audit.record(std::move(note), std::move(then));
}

}  // namespace babelring::http
