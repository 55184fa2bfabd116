#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "server/http/access.h"
#include "server/http/admission.h"
#include "server/http/lanes.h"
#include "server/http/message.h"
#include "server/http/router.h"

namespace babelring::http {

/// The audit note of a request to a route of scope ingest, operate or admin, with the members that are known before the
/// handler runs; null for any other request. `kept_out`: the request was refused because of its sender.
std::shared_ptr<WriteNote> begin_note(const Request& request, const Route& route, bool kept_out);

/// Completes the request's note with its response, stores it and then calls `then`, which may be empty. Calls `then` at
/// once if there is no note, or if the handler has stored it together with the change.
void finish_note(AuditTrail& audit, const Request& request, const Response& response, std::function<void()> then);

/// Turns a validated request into a response: admission, routing, running handlers in their lanes, problem documents
/// and caching headers. Thread-safe after construction.
class Dispatcher {
 public:
  using Executor = std::shared_ptr<Lanes>;

  Dispatcher(Router router, StaticFiles files, AdmissionOptions options, Executor executor);

  /// See Admission.
  void allow(AllowedNames names) { admission_->allow(std::move(names)); }

  /// Decides about a request before its body is read (see Admission); no other function does. Sets `parameters`,
  /// `caller`, `actor`, `note` and `answer_headers` of the request.
  Admission::Decision admit(Request& request) const;
  /// True if a long response to this caller (null: no token) may continue.
  bool still_holds(const Caller* caller) const { return admission_->still_holds(caller); }

  /// The access log; may be null.
  AccessLog* access_log() const { return admission_->options().access_log; }

  /// Returns the response to an admitted, complete request if it is available without blocking. Otherwise call
  /// dispatch(). Sets request.complete.
  std::optional<Response> answer_now(Request& request, const Admission::Decision& admission) const;

  /// Handles the request in its lane. Calls `reply` exactly once, from any thread.
  void dispatch(std::shared_ptr<const Request> request, const Admission::Decision& admission, Reply reply) const;

  /// Runs a task for a long response to this request in the query lane.
  void run(const Request& request, std::function<void()> task) const;

 private:
  /// The path below which a proxy shows the server; empty without a proxy.
  std::string prefix_of(const Request& request) const;
  void handle(const std::shared_ptr<const Request>& request, const Route& route, const Reply& reply) const;
  Response dropped(const Request& request, const Route& route, Work::Drop why) const;

  std::unique_ptr<Admission> admission_;
  Executor executor_;
};

}  // namespace babelring::http
