#pragma once

#include <functional>
#include <memory>
#include <set>
#include <string>

#include "server/http/router.h"
#include "server/http/static_files.h"

namespace babelring::http {

/// From a vetted request to its response: admission, routing, handlers on their own threads, problems, caching headers.
/// Safe to use from any thread once built.
class Dispatcher {
 public:
  /// Runs a task on the handlers' threads.
  using Executor = std::function<void(std::function<void()>)>;

  /// `hosts` are the names, in lower case and without port, that a Host header may have besides loopback ones.
  Dispatcher(Router router, StaticFiles files, std::set<std::string> hosts, Executor executor);

  /// What a head is answered before its body is read: a refusal, or the body size allowed.
  struct Admission {
    std::optional<Response> refusal;
    const Route* route = nullptr;  // absent: a static file or nothing
    std::size_t most_body_bytes = 0;
  };
  /// The one place where a request is authorised: its Host must be ours (DNS rebinding), and where bearer tokens come
  /// in, they are held against the route's scope here. Fills request.parameters.
  Admission admit(Request& request) const;

  /// Answers through `reply`, exactly once, from any thread.
  void dispatch(std::shared_ptr<const Request> request, const Admission& admission, Reply reply) const;

  /// Runs on the handlers' threads.
  void run(std::function<void()> task) const { executor_(std::move(task)); }

 private:
  bool host_is_ours(std::string_view host) const;
  void handle(const std::shared_ptr<const Request>& request, const Route& route, const Reply& reply) const;

  Router router_;
  StaticFiles files_;
  std::set<std::string> hosts_;
  Executor executor_;
};

/// Adds an ETag to a JSON answer of GET and turns it into 304 where the client has it already.
void add_validator(const Request& request, Response& response);

/// Does an If-None-Match or If-Range list name this entity tag?
bool lists_etag(std::string_view list, std::string_view etag);

}  // namespace babelring::http
