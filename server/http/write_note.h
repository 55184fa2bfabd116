#pragma once

#include <functional>
#include <memory>

#include "server/http/access.h"
#include "server/http/message.h"
#include "server/http/router.h"

namespace babelring::http {

/// The audit note of a request to a route of scope ingest, operate or admin, with the members that are known before the
/// handler runs; null for any other request. `kept_out`: the request was refused because of its sender.
std::shared_ptr<WriteNote> begin_note(const Request& request, const Route& route, bool kept_out);

/// Completes the request's note with its response, stores it and then calls `then`, which may be empty. Calls `then` at
/// once if there is no note, or if the handler has stored it together with the change.
void finish_note(AuditTrail& audit, const Request& request, const Response& response, std::function<void()> then);

}  // namespace babelring::http
