#include "server/http/admission.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cmath>
#include <utility>

#include "base/clock.h"
#include "base/log.h"
#include "base/secret.h"
#include "server/http/field_text.h"
#include "server/http/problem.h"

namespace babelring::http {
namespace {

constexpr std::size_t max_object_bytes = 512;
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

/// Whether the page was served by this server.
bool same_origin(std::string_view origin, std::string_view host) {
  const auto slashes = origin.find("://");
  return slashes != std::string_view::npos && lower(origin.substr(slashes + 3)) == lower(host);
}

Response refusal(const Request& request, int status, const char* code, const std::string& detail) {
  return problem_response(Problem(status, code, detail), request.id);
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

}  // namespace

bool writes(const Request& request) {
  return request.method != "GET" && request.method != "HEAD" && request.method != "OPTIONS";
}

bool is_loopback(std::string_view address) {
  return address.starts_with("127.") || address == "::1" || address.starts_with("::ffff:127.");
}

Gate::Gate(GateOptions options)
    : options_(std::move(options)),
      names_(std::make_shared<const AllowedNames>(options_.names)),
      rates_(options_.rates) {}

void Gate::allow(AllowedNames names) {
  names_.set(std::make_shared<const AllowedNames>(std::move(names)));
}

bool Gate::host_is_ours(std::string_view host) const {
  const std::string name = host_name(host);
  return name == "localhost" || name == "127.0.0.1" || name == "[::1]" || names_.get()->hosts.contains(name);
}

std::optional<Response> Gate::check_origin(Request& request) const {
  if (options_.behind_proxy) {
    const std::string_view chain = request.header("x-forwarded-for");
    const std::string_view last = trimmed(chain.substr(chain.rfind(',') + 1));
    if (!last.empty()) request.address = printable(last.substr(0, 64));
  }
  if (!host_is_ours(request.header("host"))) {
    return refusal(request, 421, "host_unknown", "this server does not answer for that Host; see --allow-host");
  }
  const std::string_view origin = request.header("origin");
  if (origin.empty() || same_origin(origin, request.header("host"))) return std::nullopt;
  if (!names_.get()->origins.contains(lower(origin))) {
    if (!writes(request)) return std::nullopt;  // the browser keeps the answer from the page
    return refusal(request, 403, "origin_refused", "pages of another site may not write here; see --allow-origin");
  }
  request.answer_headers.emplace_back("Access-Control-Allow-Origin", std::string(origin));
  request.answer_headers.emplace_back("Vary", "Origin");
  request.answer_headers.emplace_back(
      "Access-Control-Expose-Headers",
      "Content-Range, ETag, Idempotency-Replayed, Link, Location, RateLimit, Repr-Digest, Retry-After, X-Request-Id");
  const bool preflight = request.method == "OPTIONS" && !request.header("access-control-request-method").empty();
  if (preflight) return preflight_answer();
  return std::nullopt;
}

/// What the limit of a token's reports is multiplied by.
double Gate::scale_of(std::int64_t ranks) const {
  const double a_second = rates_.options().a_second;
  return std::max(1.0, static_cast<double>(ranks) * std::min(a_second, reports_of_a_rank) / a_second);
}

std::optional<Response> Gate::check_rate(Request& request, Scope needed) const {
  if (!rates_.limited()) return std::nullopt;
  const auto now = SteadyClock::now();
  const bool known = request.caller != nullptr;
  const auto run = request.parameters.find("run");
  const bool reports = options_.ranks != nullptr && needed == Scope::ingest && run != request.parameters.end();
  const std::int64_t ranks = reports ? options_.ranks->of(known ? request.caller->token : "") : 0;
  const double scale = scale_of(ranks);
  // Of the token as a whole: nobody gets more by naming many runs.
  const std::string own = (known ? request.caller->token : request.address) + (ranks > 0 ? " reports" : "");
  const std::string suffix = ranks > 0 ? " " + run->second : "";
  RateLimiter::Verdict verdict = rates_.take(own, now, scale);
  // The tokens of one remote machine share its bucket too. Those of this machine do not: they all have its address.
  if (known && verdict.allowed && !is_loopback(request.address)) {
    const auto by_address = rates_.take(request.address + suffix, now, scale);
    if (!by_address.allowed || by_address.left < verdict.left) verdict = by_address;
  }
  const auto& rates = rates_.options();
  request.answer_headers.emplace_back(
      "RateLimit-Policy",
      fmt::format("\"default\";q={:.0f};w={:.0f}", rates.burst * scale, std::ceil(rates.burst / rates.a_second)));
  request.answer_headers.emplace_back(
      "RateLimit",
      fmt::format("\"default\";r={:.0f};t={:.0f}", std::floor(verdict.left), std::ceil(verdict.full_seconds)));
  if (verdict.allowed) return std::nullopt;
  Response response = refusal(request, 429, "too_many_requests",
                              fmt::format("more than {:g} requests a second; wait a moment", rates.a_second * scale));
  response.set("Retry-After", fmt::format("{:.0f}", std::max(1.0, std::ceil(verdict.wait_seconds))));
  return response;
}

/// Whether the request is from a process on this machine, and does not look like one that a proxy hands on.
bool Gate::comes_from_here(const Request& request) const {
  constexpr std::array<const char*, 6> proxy_headers = {"forwarded",        "via",       "x-forwarded-for",
                                                        "x-forwarded-host", "x-real-ip", "x-forwarded-proto"};
  const bool forwarded = std::any_of(proxy_headers.begin(), proxy_headers.end(),
                                     [&](const char* name) { return !request.header(name).empty(); });
  return !options_.behind_proxy && !forwarded && !request.http_1_0 && is_loopback(request.address);
}

std::optional<Response> Gate::check_caller(Request& request, Scope needed, bool loopback_without_token) const {
  const std::string_view secret = bearer_of(request);
  if (options_.authenticator != nullptr && !secret.empty()) {
    request.caller = options_.authenticator->identify(secret);
    if (request.caller) request.actor = request.caller->name;
  }
  if (auto refused = check_rate(request, needed)) return refused;
  if (options_.authenticator == nullptr || needed == Scope::none) return std::nullopt;
  if (!request.caller) {
    const bool given = !request.header("authorization").empty();
    if (loopback_without_token && options_.open_metrics && !given && comes_from_here(request)) return std::nullopt;
    Response response = refusal(request, 401, given ? "token_invalid" : "token_missing",
                                given ? "the token is not known here, has expired or was revoked"
                                      : "send a token: Authorization: Bearer TOKEN");
    response.set("WWW-Authenticate",
                 given ? "Bearer realm=\"babelring\", error=\"invalid_token\"" : "Bearer realm=\"babelring\"");
    return response;
  }
  const Caller& caller = *request.caller;
  const auto run = request.parameters.find("run");
  const bool other_run = !caller.run.empty() && (run == request.parameters.end() || run->second != caller.run);
  if (covers(caller.scope, needed) && !other_run) return std::nullopt;
  Response response =
      other_run ? refusal(request, 403, "run_forbidden", fmt::format("this token is for run {} alone", caller.run))
                : refusal(request, 403, "scope_insufficient",
                          fmt::format("this needs a token whose scope is {}, found {}", name_of(needed),
                                      name_of(caller.scope)));
  response.set("WWW-Authenticate",
               fmt::format("Bearer realm=\"babelring\", error=\"insufficient_scope\", scope=\"{}\"", name_of(needed)));
  return response;
}

bool Gate::still_holds(const Caller* caller) const {
  return options_.authenticator == nullptr || caller == nullptr || options_.authenticator->holds(*caller);
}

std::shared_ptr<WriteNote> Gate::begin_note(const Request& request, const std::string& route, Scope scope,
                                            bool kept_out) const {
  const bool steers = scope == Scope::operate || scope == Scope::admin;
  if (options_.audit == nullptr || !writes(request) || !(steers || scope == Scope::ingest)) return nullptr;
  const std::string_view path = std::string_view(request.target).substr(0, request.target.find('?'));
  auto note = std::make_shared<WriteNote>();
  note->actor = request.actor;
  if (request.caller) note->token = request.caller->token;
  note->method = request.method;
  note->route = route;
  note->object = printable(std::string_view(redact(path)).substr(0, max_object_bytes));
  note->request = redact(request.id);
  note->address = request.address;
  note->ingest = scope == Scope::ingest;
  note->kept_by_age = steers && !kept_out;
  return note;
}

void Gate::note(const Request& request, const Response& response, std::function<void()> then) const {
  // A write whose note is stored but whose response says otherwise has failed since: that gets an entry of its own.
  if (!request.note || (request.note->kept && request.note->status == response.status)) {
    if (then) then();
    return;
  }
  WriteNote note = *request.note;
  note.time_ms = wall_time_ms();
  note.status = response.status;
  const std::string_view made = response.header("Location");
  if (!made.empty()) note.object = printable(made.substr(0, max_object_bytes));
  options_.audit->note(std::move(note), std::move(then));
}

}  // namespace babelring::http
