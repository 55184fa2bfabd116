#pragma once

#include "server/api/service.h"

namespace babelring::api {

/// Adds GET /metrics in Prometheus text format 0.0.4, and meters the handlers of all routes added before.
void add_prometheus_routes(http::Router& router, Service& service);

}  // namespace babelring::api
