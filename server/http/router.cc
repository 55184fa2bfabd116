#include "server/http/router.h"

#include <optional>
#include <sstream>
#include <utility>

namespace babelring::http {
namespace {

std::vector<std::string> split(const std::string& path) {
  std::vector<std::string> segments;
  std::istringstream text(path.substr(1));
  for (std::string segment; std::getline(text, segment, '/');) segments.push_back(std::move(segment));
  return segments;
}

bool is_parameter(const std::string& segment) {
  return segment.starts_with('{');
}

bool fits(const std::vector<std::string>& pattern, const std::vector<std::string>& path) {
  if (pattern.size() != path.size()) return false;
  for (std::size_t i = 0; i < pattern.size(); ++i) {
    if (is_parameter(pattern[i]) ? path[i].empty() : pattern[i] != path[i]) return false;
  }
  return true;
}

}  // namespace

Route returning(std::string method, std::string path, Scope scope, Handler handler) {
  const auto respond = [handle = std::move(handler)](const std::shared_ptr<const Request>& request,
                                                     const Reply& reply) { reply(handle(*request)); };
  return {.method = std::move(method), .path = std::move(path), .scope = scope, .handler = respond};
}

void Router::add(std::string method, std::string path, Scope scope, Handler handler) {
  add(returning(std::move(method), std::move(path), scope, std::move(handler)));
}

void Router::add(Route route) {
  route.segments = split(route.path);
  routes_.push_back(std::move(route));
}

void Router::wrap(const std::function<AsyncHandler(const Route&, AsyncHandler)>& make) {
  for (Route& route : routes_) route.handler = make(route, std::move(route.handler));
}

const Route* Router::find(Request& request) const {
  for (const Route& route : routes_) {
    const bool same = route.method == request.method || (route.method == "GET" && request.method == "HEAD");
    if (!same || !fits(route.segments, request.segments)) continue;
    for (std::size_t i = 0; i < route.segments.size(); ++i) {
      const std::string& segment = route.segments[i];
      if (is_parameter(segment)) request.parameters[segment.substr(1, segment.size() - 2)] = request.segments[i];
    }
    return &route;
  }
  return nullptr;
}

std::string Router::allowed_methods(const RequestMessage& request) const {
  std::string methods;
  for (const Route& route : routes_) {
    if (!fits(route.segments, request.segments)) continue;
    if (!methods.empty()) methods += ", ";
    methods += route.method == "GET" ? "GET, HEAD" : route.method;
  }
  return methods;
}

}  // namespace babelring::http
