#pragma once

#include <functional>
#include <memory>

#include "server/http/access.h"
#include "server/http/message.h"
#include "server/http/router.h"

namespace babelring::http {

/// The audit note of a write that needs the scope ingest, operate or admin, as far as it is known before the handler
/// runs; null for any other request. `kept_out`: the request was refused because of its sender.
std::shared_ptr<WriteNote> begin_note(const Request& request, const Route& route, bool kept_out);

/// Completes the request's note by its response, stores it and then calls `then`, which may be empty. Without a note,
/// or if the handler has stored it together with the change, calls `then` at once.
void finish_note(AuditTrail& audit, const Request& request, const Response& response, std::function<void()> then);

}  // namespace babelring::http
