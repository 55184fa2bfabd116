#include "server/http/dispatcher.h"

#include <fmt/ranges.h>
#include <spdlog/spdlog.h>

#include <utility>

#include "base/clock.h"
#include "base/digest.h"
#include "base/log.h"
#include "base/secret.h"
#include "server/http/accept.h"
#include "server/http/compress.h"
#include "server/http/field_text.h"
#include "server/http/problem.h"
#include "server/http/query.h"

namespace babelring::http {
namespace {

Response problem_of(const Request& request, const std::exception& failure) {
  if (const auto* problem = dynamic_cast<const Problem*>(&failure)) return problem_response(*problem, request.id);
  spdlog::error("{} {} [{}]: {}", request.method, printable(redact(request.target)), request.id,
                printable(failure.what()));
  return problem_response(Problem(500, "internal", "internal error; see this request id in the server log"),
                          request.id);
}

/// The response if the handler returned without responding.
Response lost_response(const Request& request) {
  if (!request.abandoned()) {
    spdlog::error("{} {} [{}]: the handler sent no response", request.method, printable(request.target), request.id);
  }
  return problem_response(Problem(500, "internal", "internal error; see this request id in the server log"),
                          request.id);
}

/// Checks size and type of a body before it is read. Returns nothing if they are acceptable.
std::optional<Response> check_body(const Request& request, const Route& route, std::int64_t bytes) {
  if (bytes <= 0) return std::nullopt;
  if (bytes > static_cast<std::int64_t>(route.max_body_bytes)) {
    const std::string limit = route.max_body_bytes == 0 ? fmt::format("{} takes no body here", request.method)
                                                        : fmt::format("expected at most {}", route.max_body_bytes);
    return problem_response(Problem(413, "too_large", fmt::format("the body has {} bytes; {}", bytes, limit)),
                            request.id);
  }
  const std::string type = media_type_of(request.header("content-type"));
  if (type == "application/json") return std::nullopt;
  if (request.method != "PATCH") {
    return problem_response(Problem(415, "not_json", "Content-Type must be application/json"), request.id);
  }
  if (type == merge_patch_type) return std::nullopt;
  const std::string types = fmt::format("application/json, {}", merge_patch_type);
  return problem_response(Problem(415, "not_json", "Content-Type must be one of " + types), request.id)
      .set("Accept-Patch", types);
}

/// Refuses query parameters that the route does not support.
std::optional<Response> check_query(const Request& request, const Route& route) {
  const auto fault = route.query_names ? query_fault(request.target, *route.query_names) : std::nullopt;
  if (!fault) return std::nullopt;
  return problem_response(*fault, request.id);
}

/// Refuses an Accept header that matches no media type of the route.
std::optional<Response> check_accept(const Request& request, const Route& route) {
  const std::string_view accept = request.header("accept");
  if (accept.empty() || route.produces.empty() || accepted_type(accept, route.produces)) return std::nullopt;
  const std::string given =
      fmt::format("the response is {}, which the Accept header does not match", fmt::join(route.produces, ", "));
  return problem_response(Problem(406, "not_acceptable", given), request.id);
}

/// Response after the client disconnected; at most a proxy reads it.
Response left_response(const Request& request) {
  return problem_response(Problem(503, "busy", "the client disconnected before the response"), request.id);
}

Work work_of(const Request& request) {
  Work work;
  work.owner = owner_of(request);
  if (const auto run = request.parameters.find("run"); run != request.parameters.end()) work.subject = run->second;
  work.arrived = request.complete;
  return work;
}

/// A 404 response: an HTML page with a link to the dashboard for browsers, a problem document for programs.
Response nothing_here(const Request& request) {
  const bool below_api = !request.segments.empty() && request.segments.front() == "api";
  if (below_api || request.header("accept").find("text/html") == std::string_view::npos) {
    return problem_response(Problem(404, "path_unknown", "there is no such path"), request.id);
  }
  Response response = text_response(404, "text/html; charset=utf-8",
                                    "<!doctype html>\n<html lang=\"en\">\n<title>Not found</title>\n"
                                    "<h1>Page not found</h1>\n"
                                    "<p>See the <a href=\"/\">dashboard</a> for runs, or "
                                    "the <a href=\"/api/v1/openapi.json\">API description</a>.</p>\n</html>\n");
  response.set("Cache-Control", "no-store");
  return response;
}

}  // namespace

Dispatcher::Dispatcher(Router router, StaticFiles files, GateOptions gate, Executor executor)
    : router_(std::move(router)),
      files_(std::move(files)),
      access_log_(gate.access_log),
      gate_(std::make_unique<Gate>(std::move(gate))),
      executor_(std::move(executor)) {}

Dispatcher::Admission Dispatcher::admit(Request& request, std::int64_t body_bytes) const {
  const Stopwatch watch;
  Admission admission = consider(request, body_bytes);
  if (admission.route != nullptr) {
    const int status = admission.refusal ? admission.refusal->status : 0;
    const bool kept_out = status == 401 || status == 403 || status == 421 || status == 429;
    request.note = gate_->begin_note(request, admission.route->path, admission.route->scope, kept_out);
  }
  if (!admission.refusal) return admission;
  admission.refusal->work_ms = watch.elapsed_ms();
  const int status = admission.refusal->status;
  router_.note_refusal(request, admission.route, status, watch.elapsed_ms() / 1000);
  // A client over its rate limit must not evict other audit entries.
  if (status != 429) gate_->note(request, *admission.refusal, {});
  return admission;
}

Dispatcher::Admission Dispatcher::consider(Request& request, std::int64_t body_bytes) const {
  const auto refuse = [&](int status, const char* code, const std::string& detail) {
    return problem_response(Problem(status, code, detail), request.id);
  };
  const Router::Match match = router_.match(request);
  if (auto refusal = gate_->check_origin(request)) return {std::move(refusal), match.route};
  if (match.route != nullptr) {
    const Route& route = *match.route;
    std::optional<Response> refusal;
    if (!route.on_io_thread) refusal = gate_->check_caller(request, route.scope, route.loopback_without_token);
    if (!refusal) refusal = check_query(request, route);
    if (!refusal) refusal = check_body(request, route, body_bytes);
    if (!refusal && !route.on_io_thread) refusal = check_accept(request, route);  // health checks ignore Accept
    return {std::move(refusal), &route};
  }
  if (auto refusal = gate_->check_caller(request, Scope::none)) return {std::move(refusal), nullptr};
  const bool page = match.allowed.empty() && files_.has(request);
  if (page && !writes(request) && request.method != "OPTIONS") {
    if (body_bytes > 0) return {refuse(413, "too_large", "this path takes no body"), nullptr};
    return {std::nullopt, nullptr};
  }
  if (match.allowed.empty() && !page) return {nothing_here(request), nullptr};
  Response refusal = refuse(405, "method_not_allowed", "the method is not allowed for this path");
  refusal.set("Allow", page ? "GET, HEAD" : match.allowed);
  return {std::move(refusal), nullptr};
}

std::optional<Response> Dispatcher::answer_now(Request& request, const Admission& admission) const {
  request.complete = SteadyClock::now();
  if (admission.route == nullptr || !admission.route->from_cache) return std::nullopt;
  const Stopwatch watch;
  std::optional<Response> response;
  try {
    response = admission.route->from_cache(request);
    if (!response) return std::nullopt;
    add_validator(request, *response);
    compress(request, *response);
  } catch (const std::exception& failure) {
    response = problem_of(request, failure);
  }
  response->work_ms = watch.elapsed_ms();
  router_.note_refusal(request, admission.route, response->status, response->work_ms / 1000);
  return response;
}

void Dispatcher::dispatch(std::shared_ptr<const Request> request, const Admission& admission, Reply reply) const {
  if (admission.route == nullptr) {
    const Stopwatch watch;
    Response response;
    try {
      response = files_.serve(*request);
    } catch (const std::exception& failure) {
      response = problem_of(*request, failure);
    }
    response.work_ms = watch.elapsed_ms();
    reply(std::move(response));
    return;
  }
  const Route& route = *admission.route;
  if (route.on_io_thread) {
    handle(request, route, reply);
    return;
  }
  const Reply certain = Reply::required(reply, [request] { return lost_response(*request); });
  Work work = work_of(*request);
  work.run = [this, request, &route, certain] { handle(request, route, certain); };
  work.drop = [this, request, &route, certain](Work::Drop why) { certain(dropped(*request, route, why)); };
  work.abandoned = [request] { return request->abandoned(); };
  executor_->submit(route.lane, std::move(work));
}

void Dispatcher::run(const Request& request, std::function<void()> task) const {
  Work work = work_of(request);
  work.arrived = SteadyClock::now();
  work.run = std::move(task);
  executor_->submit(Lane::query, std::move(work));
}

Response Dispatcher::dropped(const Request& request, const Route& route, Work::Drop why) const {
  const bool left = why == Work::Drop::abandoned;
  const double seconds = std::chrono::duration<double>(SteadyClock::now() - request.complete).count();
  router_.note_refusal(request, &route, left ? client_left : 503, seconds);
  if (left) return left_response(request);
  const std::string detail = why == Work::Drop::ending
                                 ? "the server is shutting down"
                                 : fmt::format("too many queued requests (lane {}); retry later", name_of(route.lane));
  return problem_response(Problem(503, "busy", detail), request.id);
}

void Dispatcher::handle(const std::shared_ptr<const Request>& request, const Route& route, const Reply& reply) const {
  // The audit entry of a write is stored before its response is sent.
  const Stopwatch watch;
  const auto finish = [this, request, reply, watch](Response response) {
    if (!request->note) {
      response.work_ms = watch.elapsed_ms();
      reply(std::move(response));
      return;
    }
    auto held = std::make_shared<Response>(std::move(response));
    gate_->note(*request, *held, [reply, held, watch] {
      held->work_ms = watch.elapsed_ms();
      reply(std::move(*held));
    });
  };
  const Reply answer = Reply::required(
      [request, finish](Response response) {
        add_validator(*request, response);
        compress(*request, response);
        finish(std::move(response));
      },
      [request] { return lost_response(*request); });
  try {
    route.handler(request, answer);
  } catch (const std::exception& failure) {
    answer(request->abandoned() ? left_response(*request) : problem_of(*request, failure));
  }
}

std::string media_type_of(std::string_view content_type) {
  return lower(trimmed(content_type.substr(0, content_type.find(';'))));
}

std::string owner_of(const Request& request) {
  return request.caller == nullptr ? "address " + request.address : request.caller->token;
}

bool lists_etag(std::string_view list, std::string_view etag) {
  if (list == "*") return true;
  for (std::size_t at = list.find(etag); at != std::string_view::npos; at = list.find(etag, at + 1)) {
    const bool ends = at + etag.size() == list.size() || list[at + etag.size()] == ',' || list[at + etag.size()] == ' ';
    if (ends) return true;
  }
  return false;
}

void add_validator(const Request& request, Response& response) {
  const auto* body = std::get_if<std::string>(&response.body);
  const bool readable = request.method == "GET" || request.method == "HEAD";
  if (!readable || response.status != 200 || body == nullptr || !response.header("ETag").empty()) return;
  const std::string etag = '"' + sha256_hex(*body).substr(0, 32) + '"';
  if (response.header("Cache-Control").empty()) response.set("Cache-Control", "no-cache");
  response.set("ETag", etag);
  const std::string_view known = request.header("if-none-match");
  if (!lists_etag(known, etag) && !lists_etag(known, etag.substr(0, etag.size() - 1) + "-gzip\"")) return;
  response.status = 304;
  response.body = std::string();
}

}  // namespace babelring::http
