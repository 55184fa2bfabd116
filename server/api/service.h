#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "server/api/event_hub.h"
#include "server/http/router.h"
#include "server/store/store.h"

namespace babelring::api {

/// What the resources share. One a process; outlives the HTTP server.
struct Service {
  store::Store& store;
  EventHub& events;
  std::vector<std::filesystem::path> checkpoint_roots;  // canonical; checkpoints are handed out below these only
};

/// Every route of the service.
http::Router make_router(Service& service);

// One function a resource, each in the file of that name.
void add_run_routes(http::Router& router, Service& service);
void add_record_routes(http::Router& router, Service& service);
void add_metric_routes(http::Router& router, Service& service);
void add_series_routes(http::Router& router, Service& service);
void add_export_routes(http::Router& router, Service& service);
void add_eval_routes(http::Router& router, Service& service);
void add_rank_routes(http::Router& router, Service& service);
void add_checkpoint_routes(http::Router& router, Service& service);
void add_log_routes(http::Router& router, Service& service);
void add_event_routes(http::Router& router, Service& service);
void add_health_routes(http::Router& router, Service& service);

}  // namespace babelring::api
