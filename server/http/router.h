#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "server/http/message.h"

namespace babelring::http {

/// Answers through the reply, at once or later from another thread. May throw Problem or any exception before that.
using AsyncHandler = std::function<void(std::shared_ptr<const Request>, Reply)>;
/// Answers on the connection's own thread what needs no waiting. Nothing: the handler is asked. May throw Problem.
using QuickHandler = std::function<std::optional<Response>(const Request&)>;
/// Answers by returning. May throw Problem.
using Handler = std::function<Response(const Request&)>;

struct Route {
  std::string method;  // GET also answers HEAD
  std::string path;    // template: /api/v1/runs/{run}
  Scope scope = Scope::read;
  std::size_t most_body_bytes = 0;
  bool prompt = false;  // answered on the connection's own thread, because it never waits for anything
  AsyncHandler handler;
  std::vector<std::string> segments;
  bool open_here = false;               // processes of this machine need no token, unless a proxy asks for them
  QuickHandler quick = nullptr;         // asked before the handler; absent: only that one answers
  std::vector<std::string> gives = {};  // media types of its answers; empty: an Accept field is not looked at
};

/// A route that answers by returning.
Route returning(std::string method, std::string path, Scope scope, Handler handler);

/// Finds the handler for a method and path.
class Router {
 public:
  /// A route that answers by returning.
  void add(std::string method, std::string path, Scope scope, Handler handler);
  /// The general form. Segments are made from the path.
  void add(Route route);

  /// Replaces every handler by what `make` gives for it.
  void wrap(const std::function<AsyncHandler(const Route&, AsyncHandler)>& make);

  /// Sets what each route gives.
  void state_types(const std::function<std::vector<std::string>(const Route&)>& types_of);

  /// `tell` is called, from any thread, for each request that is refused or answered without its handler; the route
  /// is null where none fits.
  using Refused = std::function<void(const Request&, const Route*, int status, double seconds)>;
  void on_refusal(Refused tell) { refused_ = std::move(tell); }
  void note_refusal(const Request& request, const Route* route, int status, double seconds) const {
    if (refused_) refused_(request, route, status, seconds);
  }

  struct Match {
    const Route* route = nullptr;
    std::string allowed;  // methods of the path, when only the method does not fit: "GET, HEAD"
  };
  /// Fills request.parameters on a match.
  Match match(Request& request) const;

  const std::vector<Route>& routes() const { return routes_; }

 private:
  std::vector<Route> routes_;
  Refused refused_;
};

}  // namespace babelring::http
