#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "server/access/audit_log.h"
#include "server/access/edit_locks.h"
#include "server/access/idempotency.h"
#include "server/access/token_service.h"
#include "server/api/run_answers.h"
#include "server/artifacts/downloads.h"
#include "server/events/event_hub.h"
#include "server/http/access_log.h"
#include "server/http/lanes.h"
#include "server/http/rate_limiter.h"
#include "server/http/router.h"
#include "server/http/run_ranks.h"
#include "server/store/store.h"
#include "server/verdict/run_health.h"

namespace babelring::launch {
class ControlPlane;
}
namespace babelring::translate {
class Pool;
}

namespace babelring::api {

class AlertWatch;

/// The state that the resources share. One per process; must outlive the HTTP server.
struct Service {
  store::Store& store;
  EventHub& events;
  std::vector<std::filesystem::path> checkpoint_roots;  // canonical; only checkpoints below these are served
  AlertWatch* alerts = nullptr;                         // evaluates alert rules; null: no alerts are raised
  launch::ControlPlane* control = nullptr;              // starts and supervises runs; null: this process starts none
  translate::Pool* translators = nullptr;               // null: this process does not translate
  http::AccessLog* access_log = nullptr;                // null: requests are not logged
  std::shared_ptr<const http::Lanes> lanes = nullptr;   // lanes that run the handlers; null: not reported in /metrics
  TokenService tokens{store};
  AuditLog audit{store, tokens};
  Idempotency idempotency{store};
  Downloads downloads{};
  RunTexts run_texts{};
  http::RunRanks ranks{};  // reporting ranks
  HealthCache health{};
  http::RateLimiter checkpoint_requests{{.a_second = 0.1, .burst = 1}};  // per run
  EditLocks edits{};                                                     // by run or checkpoint
};

/// Every route of the service.
http::Router make_router(Service& service);

/// The lane of each route.
http::Lane lane_of(const http::Route& route);

// One function per resource, each in the file of that name.
void add_run_routes(http::Router& router, Service& service);
void add_submit_routes(http::Router& router, Service& service);
void add_run_action_routes(http::Router& router, Service& service);
void add_heartbeat_routes(http::Router& router, Service& service);
void add_history_routes(http::Router& router, Service& service);
void add_record_routes(http::Router& router, Service& service);
void add_metric_routes(http::Router& router, Service& service);
void add_series_routes(http::Router& router, Service& service);
void add_metrics_query_routes(http::Router& router, Service& service);
void add_export_routes(http::Router& router, Service& service);
void add_eval_routes(http::Router& router, Service& service);
void add_verdict_routes(http::Router& router, Service& service);
void add_alert_routes(http::Router& router, Service& service);
void add_rank_routes(http::Router& router, Service& service);
void add_checkpoint_routes(http::Router& router, Service& service);
void add_download_routes(http::Router& router, Service& service);
void add_retention_routes(http::Router& router, Service& service);
void add_backup_routes(http::Router& router, Service& service);
void add_translate_routes(http::Router& router, Service& service);
void add_log_routes(http::Router& router, Service& service);
void add_event_routes(http::Router& router, Service& service);
void add_token_routes(http::Router& router, Service& service);
void add_audit_routes(http::Router& router, Service& service);

}  // namespace babelring::api
