#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "server/http/gate.h"
#include "server/http/lanes.h"
#include "server/http/router.h"
#include "server/http/static_files.h"

namespace babelring::http {

/// The status by which metrics count requests whose clients left before they were answered.
inline constexpr int client_left = 499;

/// Turns a vetted request into its response: admission, routing, running handlers in their lanes, problem
/// documents, caching headers. Thread-safe once constructed.
class Dispatcher {
 public:
  using Executor = std::shared_ptr<Lanes>;

  Dispatcher(Router router, StaticFiles files, GateOptions gate, Executor executor);

  /// See Gate.
  void allow(AllowedNames names) { gate_->allow(std::move(names)); }

  /// The decision on a request before its body is read.
  struct Admission {
    std::optional<Response> refusal;  // to be sent at once, without reading the body
    const Route* route = nullptr;     // null: a static file, or no such path
  };
  /// The one place where a request, whose body will have `body_bytes`, is authorised (see Gate). Fills
  /// request.parameters, caller, actor, note and answer_headers.
  Admission admit(Request& request, std::int64_t body_bytes) const;
  /// Whether an admitted request is a report: its route asks for scope ingest.
  static bool reports(const Admission& admission) {
    return admission.route != nullptr && admission.route->scope == Scope::ingest;
  }
  /// Whether an admitted request is also answered when all connections are taken: health checks and reports.
  static bool is_vital(const Admission& admission) {
    return reports(admission) || (admission.route != nullptr && (admission.route->prompt || admission.route->vital));
  }
  /// Whether a long response to this caller (null: without a token) may continue.
  bool still_holds(const Caller* caller) const { return gate_->still_holds(caller); }

  /// Where requests are logged; may be null.
  AccessLog* access_log() const { return access_log_; }

  /// The response to an admitted request, now complete, if it is available without blocking; otherwise call
  /// dispatch(). Sets request.complete.
  std::optional<Response> answer_now(Request& request, const Admission& admission) const;

  /// Responds through `reply`, exactly once, from any thread.
  void dispatch(std::shared_ptr<const Request> request, const Admission& admission, Reply reply) const;

  /// Makes a part of a long response to this request, on a thread of the lane for queries.
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

/// Who shares threads and queues with others: the request's token, or its address without one.
std::string owner_of(const Request& request);

/// Adds an ETag to a 200 response to GET or HEAD, and turns it into 304 if the client has that version already.
void add_validator(const Request& request, Response& response);

/// What a PATCH takes besides application/json (RFC 7396).
inline constexpr const char* merge_patch_type = "application/merge-patch+json";
/// The media type of a Content-Type header, in lower case and without parameters.
std::string media_type_of(std::string_view content_type);

/// Whether an If-None-Match list contains this entity tag.
bool lists_etag(std::string_view list, std::string_view etag);

}  // namespace babelring::http
