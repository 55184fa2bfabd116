#pragma once

#include <memory>
#include <optional>
#include <set>
#include <string>

#include "base/replaceable.h"
#include "server/http/access.h"
#include "server/http/access_log.h"
#include "server/http/message.h"
#include "server/http/rate_limiter.h"
#include "server/http/reply.h"
#include "server/http/router.h"
#include "server/http/static_files.h"

namespace babelring::http {

/// The accepted values of Host and Origin headers.
struct AllowedNames {
  /// Host names accepted in addition to those of loopback, in lower case and without a port.
  std::set<std::string> hosts;
  /// Origins of other sites whose pages may use the API from a browser: https://tools.example:8443.
  std::set<std::string> origins;
};

struct AdmissionOptions {
  AllowedNames names;
  Authenticator* authenticator = nullptr;  // null: no token is required
  AuditTrail* audit = nullptr;             // null: writes are not recorded
  RateLimiter::Options rates;
  /// Reports (scope ingest) of a token listed here have their own bucket, with 10 requests per second for each of the
  /// token's ranks if that is more than the rate.
  const RunRanks* ranks = nullptr;
  AccessLog* access_log = nullptr;  // null: requests are not logged
  /// The server is behind a reverse proxy: the client's address is the last one in X-Forwarded-For, and
  /// X-Forwarded-Prefix the path below which the proxy shows the server.
  bool behind_proxy = false;
  /// Routes with `loopback_without_token` need no token from processes on this machine.
  bool open_metrics = false;
};

/// Decides whether a request is allowed, before its body is read. Thread-safe.
class Admission {
 public:
  Admission(AdmissionOptions options, Router router, StaticFiles files);

  /// Replaces the names of the options.
  void allow(AllowedNames names);

  struct Decision {
    std::optional<Response> refusal;  // send it at once, without reading the body
    const Route* route = nullptr;     // null: static file or unknown path

    /// True if the request is a report: its route requires scope ingest.
    bool reports() const { return route != nullptr && route->scope == Scope::ingest; }
    /// True if the request is served even when all ordinary connections are in use: health checks and reports.
    bool is_vital() const { return reports() || (route != nullptr && (route->on_io_thread || route->vital)); }
  };
  /// Runs the checks in their order; the first problem refuses the request. Sets `parameters`, `address`, `caller`,
  /// `actor` and `answer_headers` of the request.
  Decision decide(Request& request) const;

  /// True if a long response to this caller (null: no token) may continue.
  bool still_holds(const Caller* caller) const;

  const AdmissionOptions& options() const { return options_; }
  const Router& router() const { return router_; }
  const StaticFiles& files() const { return files_; }

 private:
  /// Returns the reason to refuse the request, or nothing. The route of a static file or an unknown path has no method.
  using Check = std::optional<Problem> (Admission::*)(Request&, const Route&) const;
  static const Check origin_checks[], checks[];

  std::optional<Problem> check_host(Request& request, const Route& route) const;
  std::optional<Problem> check_origin(Request& request, const Route& route) const;
  /// Identifies the caller and limits its rate.
  std::optional<Problem> check_rate(Request& request, const Route& route) const;
  std::optional<Problem> check_token(Request& request, const Route& route) const;
  std::optional<Problem> check_path(Request& request, const Route& route) const;
  std::optional<Problem> check_query(Request& request, const Route& route) const;
  std::optional<Problem> check_body(Request& request, const Route& route) const;
  std::optional<Problem> check_accept(Request& request, const Route& route) const;

  bool allows_origin(const RequestMessage& request) const;
  bool is_preflight(const RequestMessage& request) const;
  bool comes_from_loopback(const Request& request) const;
  void identify(Request& request) const;
  RateLimiter::Verdict take_permit(const Request& request, const std::string& run, std::int64_t ranks,
                                   double scale) const;
  double scale_of(std::int64_t ranks) const;

  const AdmissionOptions options_;
  const Router router_;
  const StaticFiles files_;
  Replaceable<const AllowedNames> names_;
  mutable RateLimiter rates_;
};

bool is_loopback(std::string_view address);

}  // namespace babelring::http
