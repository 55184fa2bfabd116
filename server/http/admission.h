#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <string>

#include "base/replaceable.h"
#include "server/http/access.h"
#include "server/http/access_log.h"
#include "server/http/message.h"
#include "server/http/rate_limiter.h"
#include "server/http/run_ranks.h"

namespace babelring::http {

/// What Host and Origin headers may say.
struct AllowedNames {
  /// Names that a Host header may have besides those of loopback, in lower case and without a port.
  std::set<std::string> hosts;
  /// Origins of other sites whose pages may use the API from a browser: https://tools.example:8443.
  std::set<std::string> origins;
};

struct GateOptions {
  AllowedNames names;
  Authenticator* authenticator = nullptr;  // null: no token is required
  AuditTrail* audit = nullptr;             // null: writes are not recorded
  RateLimiter::Options rates;
  /// Reports (scope ingest) of a token in here have a bucket of their own, with 10 requests a second for each of the
  /// token's ranks where that is more than the rate.
  const RunRanks* ranks = nullptr;
  AccessLog* access_log = nullptr;  // null: requests are not logged
  /// The server is behind a reverse proxy: the client's address is the last one in X-Forwarded-For.
  bool behind_proxy = false;
  /// Routes with `loopback_without_token` need no token from processes on this machine.
  bool open_metrics = false;
};

/// Decides, before a request's body is read, whether it is allowed, and records who wrote. Thread-safe.
class Gate {
 public:
  explicit Gate(GateOptions options);

  /// Replaces the names that the options gave.
  void allow(AllowedNames names);

  /// Checks that the request is meant for this server and comes from a page that may send it. Returns a refusal, the
  /// answer to a preflight, or nothing if the request may proceed. Completes request.address and answer_headers.
  std::optional<Response> check_origin(Request& request) const;

  /// Checks rate limit, token and scope. Returns a refusal, or nothing if the request may proceed. Fills request.caller
  /// and request.actor. `loopback_without_token`: open_metrics applies.
  std::optional<Response> check_caller(Request& request, Scope needed, bool loopback_without_token = false) const;

  /// Whether a long response to this caller (null: without a token) may continue.
  bool still_holds(const Caller* caller) const;

  /// The audit's note of a write that needs the scope ingest, operate or admin, as far as it is known before the
  /// handler runs; null for any other request, and without an audit. `kept_out`: the request was refused for who sent
  /// it.
  std::shared_ptr<WriteNote> begin_note(const Request& request, const std::string& route, Scope scope,
                                        bool kept_out) const;
  /// Completes the request's note by its outcome, stores it and then calls `then`. Without a note, or where the handler
  /// has stored it together with the change, `then` is called at once.
  void note(const Request& request, const Response& response, std::function<void()> then) const;

 private:
  bool host_is_ours(std::string_view host) const;
  bool comes_from_here(const Request& request) const;
  std::optional<Response> check_rate(Request& request, Scope needed) const;
  double scale_of(std::int64_t ranks) const;

  const GateOptions options_;
  Replaceable<const AllowedNames> names_;
  mutable RateLimiter rates_;
};

/// Whether the request's method may change anything.
bool writes(const Request& request);

bool is_loopback(std::string_view address);

}  // namespace babelring::http
