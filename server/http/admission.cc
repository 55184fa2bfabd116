#include "server/http/admission.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include "base/clock.h"
#include "base/log.h"
#include "server/http/fields.h"

namespace babelring::http {
namespace {

constexpr double reports_of_a_rank = 10;  // a second: a heartbeat and four batches, with room for retries

std::string host_name(std::string_view host) {
  const auto bracket = host.rfind(']');
  const auto colon = host.rfind(':');
  if (colon != std::string_view::npos && (bracket == std::string_view::npos || colon > bracket)) {
    host = host.substr(0, colon);
  }
  return lower(host);
}

/// The secret in `Authorization: Bearer SECRET`; empty without one.
std::string_view bearer_of(const Request& request) {
  const std::string_view field = trimmed(request.header("authorization"));
  const auto space = field.find(' ');
  if (space == std::string_view::npos || lower(field.substr(0, space)) != "bearer") return {};
  return trimmed(field.substr(space));
}

/// True if the page was served by this server: its origin is the host that was asked for, or the browser says so, which
/// no page can (Fetch Metadata, W3C). Behind a proxy that changes Host, X-Forwarded-Host names what was asked for.
bool same_origin(const RequestMessage& request, bool behind_proxy) {
  const std::string_view origin = request.header("origin");
  const auto slashes = origin.find("://");
  if (slashes == std::string_view::npos) return false;
  const std::string host = lower(origin.substr(slashes + 3));
  const auto is_host = [&](const char* name) { return host == lower(request.header(name)); };
  return is_host("host") || request.header("sec-fetch-site") == "same-origin" ||
         (behind_proxy && is_host("x-forwarded-host"));
}

Response preflight_answer() {
  Response response;
  response.status = 204;
  response.set("Access-Control-Allow-Methods", "GET, HEAD, POST, PUT, PATCH, DELETE");
  response.set("Access-Control-Allow-Headers",
               "Accept, Authorization, Content-Type, Idempotency-Key, If-Match, If-None-Match, If-Range, "
               "Last-Event-ID, Range, X-Request-Id");
  response.set("Access-Control-Max-Age", "600");
  return response;
}

/// The response to a refused request. A browser that asks for an unknown page gets one with a link to the dashboard.
Response refusal_response(const Request& request, const Problem& problem) {
  const bool below_api = !request.segments.empty() && request.segments.front() == "api";
  const bool browser = !below_api && request.header("accept").find("text/html") != std::string_view::npos;
  if (problem.code() != "path_unknown" || !browser) return problem_response(problem, request.id);
  Response response = text_response(404, "text/html; charset=utf-8",
                                    "<!doctype html>\n<html lang=\"en\">\n<title>Not found</title>\n"
                                    "<h1>Page not found</h1>\n"
                                    "<p>See the <a href=\"/\">dashboard</a> for runs, or "
                                    "the <a href=\"/api/v1/openapi.json\">API description</a>.</p>\n</html>\n");
  response.set("Cache-Control", "no-store");
  return response;
}

}  // namespace

bool is_loopback(std::string_view address) {
  return address.starts_with("127.") || address == "::1" || address.starts_with("::ffff:127.");
}

const Admission::Check Admission::origin_checks[] = {&Admission::check_host, &Admission::check_origin};
const Admission::Check Admission::checks[] = {&Admission::check_rate, &Admission::check_token,
                                              &Admission::check_path, &Admission::check_query,
                                              &Admission::check_body, &Admission::check_accept};

Admission::Admission(AdmissionOptions options, Router router, StaticFiles files)
    : options_(std::move(options)),
      router_(std::move(router)),
      files_(std::move(files)),
      names_(std::make_shared<const AllowedNames>(options_.names)),
      rates_(options_.rates) {}

void Admission::allow(AllowedNames names) {
  names_.set(std::make_shared<const AllowedNames>(std::move(names)));
}

Admission::Decision Admission::decide(Request& request) const {
  static const Route no_route{.scope = Scope::none};
  Decision decision{.route = router_.find(request)};
  const Route& route = decision.route != nullptr ? *decision.route : no_route;
  std::optional<Problem> problem;
  const auto run = [&](const Check check) { return (problem = (this->*check)(request, route)).has_value(); };
  const bool foreign = std::any_of(std::begin(origin_checks), std::end(origin_checks), run);
  if (!foreign && is_preflight(request)) {
    decision.refusal = preflight_answer();
  } else if (foreign || std::any_of(std::begin(checks), std::end(checks), run)) {
    decision.refusal = refusal_response(request, *problem);
  }
  return decision;
}

std::optional<Problem> Admission::check_host(Request& request, const Route& route) const {
  if (options_.behind_proxy) {
    const std::string_view chain = request.header("x-forwarded-for");
    const std::string_view last = trimmed(chain.substr(chain.rfind(',') + 1));
    if (!last.empty()) request.address = printable(last.substr(0, 64));
  }
  if (route.on_io_thread || route.vital) return std::nullopt;  // tell nothing, and probes name the address, or no host
  const std::string name = host_name(request.header("host"));
  if (name == "localhost" || name == "127.0.0.1" || name == "[::1]" || names_.get()->hosts.contains(name)) {
    return std::nullopt;
  }
  return Problem(421, "host_unknown", "this server does not answer for that Host; see --allow-host");
}

bool Admission::allows_origin(const RequestMessage& request) const {
  return names_.get()->origins.contains(lower(request.header("origin")));
}

std::optional<Problem> Admission::check_origin(Request& request, const Route&) const {
  const std::string_view origin = request.header("origin");
  if (origin.empty() || same_origin(request, options_.behind_proxy)) return std::nullopt;
  if (!allows_origin(request)) {
    if (!writes(request)) return std::nullopt;  // the browser keeps the answer from the page
    return Problem(403, "origin_refused",
                   fmt::format("pages of another site may not write here: Origin is {}, Host is {}; see --allow-origin",
                               printable(origin.substr(0, 128)), printable(request.header("host").substr(0, 128))));
  }
  request.answer_headers.emplace_back("Access-Control-Allow-Origin", std::string(origin));
  request.answer_headers.emplace_back("Vary", "Origin");
  request.answer_headers.emplace_back(
      "Access-Control-Expose-Headers",
      "Content-Range, ETag, Idempotency-Replayed, Link, Location, RateLimit, Repr-Digest, Retry-After, X-Request-Id");
  return std::nullopt;
}

/// True if a browser asks whether the page of an allowed site may send a request.
bool Admission::is_preflight(const RequestMessage& request) const {
  return request.method == "OPTIONS" && !request.header("access-control-request-method").empty() &&
         !same_origin(request, options_.behind_proxy) && allows_origin(request);
}

/// The factor on the rate limit of a token's reports.
double Admission::scale_of(std::int64_t ranks) const {
  const double a_second = rates_.options().a_second;
  return std::max(1.0, static_cast<double>(ranks) * std::min(a_second, reports_of_a_rank) / a_second);
}

void Admission::identify(Request& request) const {
  const std::string_view secret = bearer_of(request);
  if (options_.authenticator == nullptr || secret.empty()) return;
  request.caller = options_.authenticator->identify(secret);
  if (request.caller) request.actor = request.caller->name;
}

/// Takes a permit of the request's token, and of its address if that is another machine's.
RateLimiter::Verdict Admission::take_permit(const Request& request, const std::string& run, std::int64_t ranks,
                                            double scale) const {
  const auto now = SteadyClock::now();
  const bool known = request.caller != nullptr;
  // The bucket is that of the whole token: naming many runs gives nobody more.
  const std::string own = (known ? request.caller->token : request.address) + (ranks > 0 ? " reports" : "");
  RateLimiter::Verdict verdict = rates_.take(own, now, scale);
  // The tokens of one remote machine take from its bucket too. Those of this machine do not: they all have its address.
  if (known && verdict.allowed && !is_loopback(request.address)) {
    const auto by_address = rates_.take(request.address + (ranks > 0 ? " " + run : ""), now, scale);
    if (!by_address.allowed || by_address.left < verdict.left) verdict = by_address;
  }
  return verdict;
}

std::optional<Problem> Admission::check_rate(Request& request, const Route& route) const {
  if (route.on_io_thread) return std::nullopt;
  identify(request);
  if (!rates_.limited()) return std::nullopt;
  const auto run = request.parameters.find("run");
  const bool reports = options_.ranks != nullptr && route.scope == Scope::ingest && run != request.parameters.end();
  const std::int64_t ranks = reports ? options_.ranks->of(request.caller ? request.caller->token : "") : 0;
  const double scale = scale_of(ranks);
  const RateLimiter::Verdict verdict = take_permit(request, reports ? run->second : "", ranks, scale);
  const auto& rates = rates_.options();
  request.answer_headers.emplace_back(
      "RateLimit-Policy",
      fmt::format("\"default\";q={:.0f};w={:.0f}", rates.burst * scale, std::ceil(rates.burst / rates.a_second)));
  request.answer_headers.emplace_back(
      "RateLimit",
      fmt::format("\"default\";r={:.0f};t={:.0f}", std::floor(verdict.left), std::ceil(verdict.full_seconds)));
  if (verdict.allowed) return std::nullopt;
  return Problem(429, "too_many_requests",
                 fmt::format("more than {:g} requests a second; wait a moment", rates.a_second * scale))
      .with("Retry-After", fmt::format("{:.0f}", std::max(1.0, std::ceil(verdict.wait_seconds))));
}

/// True if the request is from a process on this machine, and shows no sign of a proxy that passes it on.
bool Admission::comes_from_loopback(const Request& request) const {
  constexpr std::array<const char*, 6> proxy_headers = {"forwarded",        "via",       "x-forwarded-for",
                                                        "x-forwarded-host", "x-real-ip", "x-forwarded-proto"};
  const bool forwarded = std::any_of(proxy_headers.begin(), proxy_headers.end(),
                                     [&](const char* name) { return !request.header(name).empty(); });
  return !options_.behind_proxy && !forwarded && !request.http_1_0 && is_loopback(request.address);
}

std::optional<Problem> Admission::check_token(Request& request, const Route& route) const {
  if (route.on_io_thread || options_.authenticator == nullptr || route.scope == Scope::none) return std::nullopt;
  if (!request.caller) {
    const bool given = !request.header("authorization").empty();
    const bool open = route.loopback_without_token && options_.open_metrics && !given && comes_from_loopback(request);
    if (open) return std::nullopt;
    return Problem(401, given ? "token_invalid" : "token_missing",
                   given ? "the token is not known here, has expired or was revoked"
                         : "send a token: Authorization: Bearer TOKEN")
        .with("WWW-Authenticate",
              given ? "Bearer realm=\"babelring\", error=\"invalid_token\"" : "Bearer realm=\"babelring\"");
  }
  const Caller& caller = *request.caller;
  const auto run = request.parameters.find("run");
  const bool named = run != request.parameters.end();
  const bool left_to_handler = !named && route.checks_run && caller.scope == Scope::read;
  const bool other_run = !caller.run.empty() && !left_to_handler && (!named || run->second != caller.run);
  const bool operates = route.operators_too && covers(caller.scope, Scope::operate);
  if ((operates || covers(caller.scope, route.scope)) && !other_run) return std::nullopt;
  const std::string needed(name_of(route.scope));
  const std::string_view or_operate = route.operators_too ? " or operate" : "";
  Problem problem = other_run ? Problem(403, "run_forbidden", fmt::format("this token is for run {} alone", caller.run))
                              : Problem(403, "scope_insufficient",
                                        fmt::format("this needs a token whose scope is {}{}, found {}", needed,
                                                    or_operate, name_of(caller.scope)));
  return std::move(problem).with(
      "WWW-Authenticate",
      fmt::format("Bearer realm=\"babelring\", error=\"insufficient_scope\", scope=\"{}\"", needed));
}

std::optional<Problem> Admission::check_path(Request& request, const Route& route) const {
  if (!route.method.empty()) return std::nullopt;
  const std::string methods = router_.allowed_methods(request);
  const bool page = methods.empty() && files_.has(request);
  if (page && !writes(request) && request.method != "OPTIONS") {
    if (request.content_length > 0) return Problem(413, "too_large", "this path takes no body");
    return std::nullopt;
  }
  if (methods.empty() && !page) return Problem(404, "path_unknown", "there is no such path");
  return Problem(405, "method_not_allowed", "the method is not allowed for this path")
      .with("Allow", page ? "GET, HEAD" : methods);
}

std::optional<Problem> Admission::check_query(Request& request, const Route& route) const {
  return route.query_names ? query_fault(request.target, *route.query_names) : std::nullopt;
}

std::optional<Problem> Admission::check_body(Request& request, const Route& route) const {
  const std::int64_t bytes = request.content_length;
  if (bytes <= 0) return std::nullopt;
  if (bytes > static_cast<std::int64_t>(route.max_body_bytes)) {
    const std::string limit = route.max_body_bytes == 0 ? fmt::format("{} takes no body here", request.method)
                                                        : fmt::format("expected at most {}", route.max_body_bytes);
    return Problem(413, "too_large", fmt::format("the body has {} bytes; {}", bytes, limit));
  }
  const std::string type = media_type_of(request.header("content-type"));
  if (type == "application/json") return std::nullopt;
  if (request.method != "PATCH") return Problem(415, "not_json", "Content-Type must be application/json");
  if (type == merge_patch_type) return std::nullopt;
  const std::string types = fmt::format("application/json, {}", merge_patch_type);
  return Problem(415, "not_json", "Content-Type must be one of " + types).with("Accept-Patch", types);
}

std::optional<Problem> Admission::check_accept(Request& request, const Route& route) const {
  const std::string_view accept = request.header("accept");
  const bool any = route.on_io_thread || accept.empty() || route.produces.empty();  // health checks ignore Accept
  if (any || accepted_type(accept, route.produces)) return std::nullopt;
  return Problem(
      406, "not_acceptable",
      fmt::format("the response is {}, which the Accept header does not match", fmt::join(route.produces, ", ")));
}

bool Admission::still_holds(const Caller* caller) const {
  return options_.authenticator == nullptr || caller == nullptr || options_.authenticator->holds(*caller);
}

}  // namespace babelring::http
