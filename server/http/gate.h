#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <string>

#include "server/http/access.h"
#include "server/http/message.h"
#include "server/http/rate_limiter.h"

namespace babelring::http {

struct GateOptions {
  /// Names, in lower case and without port, that a Host header may have besides loopback ones.
  std::set<std::string> hosts;
  /// Other web sites whose pages may use the API from a browser: https://tools.example:8443.
  std::set<std::string> origins;
  Authenticator* authenticator = nullptr;  // absent: nobody is asked who they are
  AuditTrail* audit = nullptr;             // absent: writes are not remembered
  RateLimiter::Options rates;
  /// A reverse proxy stands before us: the client's address is the last one of X-Forwarded-For.
  bool behind_proxy = false;
};

/// Decides who may come in, before a request's body is read, and remembers who wrote. Thread-safe.
class Gate {
 public:
  explicit Gate(GateOptions options);

  /// Is the request meant for this server, and from a page that may ask? Answers preflights. Nothing: it may go on.
  /// Completes request.address, and what every answer to it says.
  std::optional<Response> check_origin(Request& request) const;

  /// Does the caller ask no more often than agreed, is known, and may do what `needed` says? Nothing: yes. Fills
  /// request.caller and request.actor. `open_here`: processes of this machine need no token.
  std::optional<Response> check_caller(Request& request, Scope needed, bool open_here = false) const;

  /// May an answer to this caller, null for one without a token, go on?
  bool still_holds(const Caller* caller) const;

  /// What will be said of a request that writes; null for others, and where nothing is remembered.
  std::shared_ptr<WriteNote> begin_note(const Request& request, const std::string& route, Scope scope) const;
  /// Remembers what became of a request that has a note, and calls `then` afterwards; at once for one that has none, or
  /// whose handler has kept it together with what it changed.
  void note(const Request& request, const Response& response, std::function<void()> then) const;

 private:
  bool host_is_ours(std::string_view host) const;
  bool comes_from_here(const Request& request) const;
  std::optional<Response> check_rate(Request& request) const;

  const GateOptions options_;
  mutable RateLimiter rates_;
};

/// Does the request's method change anything?
bool writes(const Request& request);

bool is_loopback(std::string_view address);

}  // namespace babelring::http
