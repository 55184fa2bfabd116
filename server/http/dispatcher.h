#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "server/http/gate.h"
#include "server/http/router.h"
#include "server/http/static_files.h"

namespace babelring::http {

/// From a vetted request to its response: admission, routing, handlers on their own threads, problems, caching headers.
/// Safe to use from any thread once built.
class Dispatcher {
 public:
  /// Runs a task on the handlers' threads.
  using Executor = std::function<void(std::function<void()>)>;

  Dispatcher(Router router, StaticFiles files, GateOptions gate, Executor executor);

  /// What is answered to a head before its body of `body_bytes` is read.
  struct Admission {
    std::optional<Response> refusal;  // sent at once
    const Route* route = nullptr;     // absent: a static file or nothing
  };
  /// The one place where a request is authorised: see Gate. Fills request.parameters, caller, actor, note and
  /// answer_headers.
  Admission admit(Request& request, std::int64_t body_bytes) const;
  /// May a long answer to this caller, null for one without a token, go on?
  bool still_holds(const Caller* caller) const { return gate_->still_holds(caller); }

  /// The answer to an admitted request, where it needs no waiting; else dispatch() gives it.
  std::optional<Response> answer_now(const Request& request, const Admission& admission) const;

  /// Answers through `reply`, exactly once, from any thread.
  void dispatch(std::shared_ptr<const Request> request, const Admission& admission, Reply reply) const;

  /// Runs on the handlers' threads.
  void run(std::function<void()> task) const { executor_(std::move(task)); }

 private:
  Admission consider(Request& request, std::int64_t body_bytes) const;
  void handle(const std::shared_ptr<const Request>& request, const Route& route, const Reply& reply) const;

  Router router_;
  StaticFiles files_;
  std::unique_ptr<const Gate> gate_;
  Executor executor_;
};

/// Adds an ETag to a JSON answer of GET and turns it into 304 where the client has it already.
void add_validator(const Request& request, Response& response);

/// Does an If-None-Match or If-Range list name this entity tag?
bool lists_etag(std::string_view list, std::string_view etag);

}  // namespace babelring::http
