#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "server/http/admission.h"
#include "server/http/lanes.h"
#include "server/http/router.h"
#include "server/http/static_files.h"

namespace babelring::http {

/// Status used in metrics and logs for requests of clients that disconnected before the response.
inline constexpr int client_left = 499;

/// Turns a validated request into a response: admission, routing, running handlers in their lanes, problem documents
/// and caching headers. Thread-safe after construction.
class Dispatcher {
 public:
  using Executor = std::shared_ptr<Lanes>;

  Dispatcher(Router router, StaticFiles files, GateOptions gate, Executor executor);

  /// See Gate.
  void allow(AllowedNames names) { gate_->allow(std::move(names)); }

  /// The decision about a request before its body is read.
  struct Admission {
    std::optional<Response> refusal;  // send it at once, without reading the body
    const Route* route = nullptr;     // null: static file or unknown path
  };
  /// Authorises a request with a body of `body_bytes` (see Gate); no other function does. Sets `parameters`, `caller`,
  /// `actor`, `note` and `answer_headers` of the request.
  Admission admit(Request& request, std::int64_t body_bytes) const;
  /// True if an admitted request is a report: its route requires scope ingest.
  static bool reports(const Admission& admission) {
    return admission.route != nullptr && admission.route->scope == Scope::ingest;
  }
  /// True if an admitted request is served even when all ordinary connections are in use: health checks and reports.
  static bool is_vital(const Admission& admission) {
    return reports(admission) ||
           (admission.route != nullptr && (admission.route->on_io_thread || admission.route->vital));
  }
  /// True if a long response to this caller (null: no token) may continue.
  bool still_holds(const Caller* caller) const { return gate_->still_holds(caller); }

  /// The access log; may be null.
  AccessLog* access_log() const { return access_log_; }

  /// Returns the response to an admitted, complete request if it is available without blocking. Otherwise call
  /// dispatch(). Sets request.complete.
  std::optional<Response> answer_now(Request& request, const Admission& admission) const;

  /// Handles the request in its lane. Calls `reply` exactly once, from any thread.
  void dispatch(std::shared_ptr<const Request> request, const Admission& admission, Reply reply) const;

  /// Runs a task for a long response to this request in the query lane.
  void run(const Request& request, std::function<void()> task) const;

 private:
  Admission consider(Request& request, std::int64_t body_bytes) const;
  void handle(const std::shared_ptr<const Request>& request, const Route& route, const Reply& reply) const;
  Response dropped(const Request& request, const Route& route, Work::Drop why) const;

  Router router_;
  StaticFiles files_;
  AccessLog* access_log_;
  std::unique_ptr<Gate> gate_;
  Executor executor_;
};

/// The owner of a request for fair queueing: its token, or its address without a token.
std::string owner_of(const Request& request);

/// Adds an ETag to a 200 response to GET or HEAD. Turns the response into 304 if the client has that version.
void add_validator(const Request& request, Response& response);

/// Media type accepted by PATCH in addition to application/json (RFC 7396).
inline constexpr const char* merge_patch_type = "application/merge-patch+json";
/// The media type of a Content-Type header, in lower case and without parameters.
std::string media_type_of(std::string_view content_type);

/// True if an If-None-Match list contains this entity tag.
bool lists_etag(std::string_view list, std::string_view etag);

}  // namespace babelring::http
