#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "server/http/lanes.h"
#include "server/http/message.h"
#include "server/http/reply.h"

namespace babelring::http {

/// Responds through the reply, at once or later from any thread. May throw Problem or any other exception before that.
using AsyncHandler = std::function<void(std::shared_ptr<const Request>, Reply)>;
/// Returns the response if it is available without blocking; otherwise the handler is called. Called on the I/O thread.
/// May throw Problem.
using CacheHandler = std::function<std::optional<Response>(const Request&)>;
/// Returns the response. May throw Problem.
using Handler = std::function<Response(const Request&)>;

struct Route {
  std::string method;  // GET also answers HEAD
  std::string path;    // template: /api/v1/runs/{run}
  Scope scope = Scope::read;
  AsyncHandler handler = {};
  std::size_t max_body_bytes = 0;
  Lane lane = Lane::ordinary;              // threads that run the handler
  bool on_io_thread = false;               // never blocks: runs on the I/O thread, without checks of token and rate
  bool vital = false;                      // also answered when all connections are taken
  bool loopback_without_token = false;     // AdmissionOptions::open_metrics applies
  bool operators_too = false;              // tokens of scope `operate` suffice, too
  bool checks_run = false;                 // the handler itself refuses readers of one run what is another's
  CacheHandler from_cache = nullptr;       // called before the handler; may be absent
  std::vector<std::string> produces = {};  // media types of its responses; empty: Accept headers are ignored
  std::optional<std::vector<std::string>> query_names =
      {};                                  // query parameters; others are refused; absent: all are accepted
  std::vector<std::string> segments = {};  // of the path; set by Router::add()
};

/// A route whose handler returns the response.
Route returning(std::string method, std::string path, Scope scope, Handler handler);

/// Finds the handler for a method and path.
class Router {
 public:
  /// Adds a route whose handler returns the response; see returning().
  void add(std::string method, std::string path, Scope scope, Handler handler);
  /// Adds a route of any kind.
  void add(Route route);

  /// Replaces every handler by the result of `make`.
  void wrap(const std::function<AsyncHandler(const Route&, AsyncHandler)>& make);

  /// Sets a callback for each request that is refused or answered without its handler. It is called from any thread;
  /// `route` is null if none matches.
  using Refused = std::function<void(const Request&, const Route*, int status, double seconds)>;
  void on_refusal(Refused call) { refused_ = std::move(call); }
  void report_refusal(const Request& request, const Route* route, int status, double seconds) const {
    if (refused_) refused_(request, route, status, seconds);
  }

  /// The route with the request's method and path; null if there is none. Sets request.parameters if it is found.
  const Route* find(Request& request) const;
  /// The methods of the routes with the request's path: "GET, HEAD". Empty if there are none.
  std::string allowed_methods(const RequestMessage& request) const;

 private:
  std::vector<Route> routes_;
  Refused refused_;
};

}  // namespace babelring::http
