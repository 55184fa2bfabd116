#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <variant>

#include "server/api/service.h"
#include "server/http/router.h"

namespace babelring::api {

/// Returns the response. May throw Problem.
using Handler = http::Response (*)(Service&, const http::Request&);
/// Responds through the reply, at once or later from any thread. May throw Problem before that.
using AsyncHandler = void (*)(Service&, const std::shared_ptr<const http::Request>&, const http::Reply&);
/// Returns the response if it is in memory. Called on the I/O thread, before the handler.
using CachedAnswer = std::optional<http::Response> (*)(const Service&, const http::Request&);

/// Members that only some routes need. See http::Route for the members of the same name.
struct RouteOptions {
  http::Lane lane = http::Lane::ordinary;
  std::size_t max_body_kib = 0;
  bool empty_body = false;  // the body must be absent or {}: any other is refused with 400
  CachedAnswer from_cache = nullptr;
  bool on_io_thread = false, vital = false, loopback_without_token = false, operators_too = false;
  bool checks_run = false;
};

/// One operation of openapi.yaml.
struct RouteEntry {
  std::string_view method, path;
  http::Scope scope;
  std::variant<Handler, AsyncHandler> handler;
  RouteOptions options = {};
};

/// Every route of the service. Where two paths match, the first one wins.
std::span<const RouteEntry> route_table();

/// The routes with their media types and query parameters from the contract, metered by service.meter. Sets
/// service.contract.
http::Router make_router(Service& service);

}  // namespace babelring::api
