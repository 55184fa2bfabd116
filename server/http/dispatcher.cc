#include "server/http/dispatcher.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <cctype>
#include <utility>

#include "nmt/base/digest.h"
#include "nmt/base/log.h"
#include "server/http/problem.h"

namespace babelring::http {
namespace {

Response problem_of(const Request& request, const std::exception& failure) {
  if (const auto* problem = dynamic_cast<const Problem*>(&failure)) return problem_response(*problem, request.id);
  spdlog::error("{} {} [{}]: {}", request.method, printable(request.target), request.id, printable(failure.what()));
  return problem_response(Problem(500, "internal", "the server failed; its log has this request's id"), request.id);
}

std::string host_name(std::string_view host) {
  std::string name(host);
  const auto bracket = name.rfind(']');
  const auto colon = name.rfind(':');
  if (colon != std::string::npos && (bracket == std::string::npos || colon > bracket)) name.resize(colon);
  std::transform(name.begin(), name.end(), name.begin(), [](unsigned char c) { return std::tolower(c); });
  return name;
}

}  // namespace

Dispatcher::Dispatcher(Router router, StaticFiles files, std::set<std::string> hosts, Executor executor)
    : router_(std::move(router)), files_(std::move(files)), hosts_(std::move(hosts)), executor_(std::move(executor)) {}

bool Dispatcher::host_is_ours(std::string_view host) const {
  const std::string name = host_name(host);
  return name == "localhost" || name == "127.0.0.1" || name == "[::1]" || hosts_.contains(name);
}

Dispatcher::Admission Dispatcher::admit(Request& request) const {
  const auto refuse = [&](int status, const char* code, const std::string& detail) {
    return Admission{problem_response(Problem(status, code, detail), request.id), nullptr, 0};
  };
  if (!host_is_ours(request.header("host"))) {
    return refuse(421, "host_unknown", "this server does not answer for that Host; see --allow-host");
  }
  const Router::Match match = router_.match(request);
  if (match.route != nullptr) {
    if (request.method == "POST" && !request.header("content-type").starts_with("application/json")) {
      return refuse(415, "not_json", "Content-Type must be application/json");
    }
    return {std::nullopt, match.route, match.route->most_body_bytes};
  }
  const bool readable = request.method == "GET" || request.method == "HEAD";
  const bool page = match.allowed.empty() && files_.has(request);
  if (page && readable) return {std::nullopt, nullptr, 0};
  if (match.allowed.empty() && !page) return refuse(404, "path_unknown", "nothing is here");
  Admission admission = refuse(405, "method_not_allowed", "this path does not take that method");
  admission.refusal->set("Allow", page ? "GET, HEAD" : match.allowed);
  return admission;
}

void Dispatcher::dispatch(std::shared_ptr<const Request> request, const Admission& admission, Reply reply) const {
  if (admission.route == nullptr) {
    Response response;
    try {
      response = files_.serve(*request);
    } catch (const std::exception& failure) {
      response = problem_of(*request, failure);
    }
    reply(std::move(response));
    return;
  }
  const Route& route = *admission.route;
  if (route.prompt) {
    handle(request, route, reply);
    return;
  }
  executor_([this, request = std::move(request), &route, reply = std::move(reply)] { handle(request, route, reply); });
}

void Dispatcher::handle(const std::shared_ptr<const Request>& request, const Route& route, const Reply& reply) const {
  try {
    route.handler(request, [request, reply](Response response) {
      add_validator(*request, response);
      reply(std::move(response));
    });
  } catch (const std::exception& failure) {
    reply(problem_of(*request, failure));
  }
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
  if (!lists_etag(request.header("if-none-match"), etag)) return;
  response.status = 304;
  response.body = std::string();
}

}  // namespace babelring::http
