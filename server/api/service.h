#pragma once

#include <array>
#include <chrono>
#include <filesystem>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "server/access/audit_log.h"
#include "server/access/idempotency.h"
#include "server/access/token_service.h"
#include "server/api/analysis.h"
#include "server/api/runs.h"
#include "server/artifacts/backup_maker.h"
#include "server/artifacts/downloads.h"
#include "server/artifacts/retention_service.h"
#include "server/events/event_hub.h"
#include "server/http/access_log.h"
#include "server/http/lanes.h"
#include "server/http/rate_limiter.h"
#include "server/http/router.h"
#include "server/store/store.h"
#include "server/telemetry/http_meter.h"
#include "server/verdict/run_health.h"

namespace babelring::access {

/// Locks by resource name. Held from the check of If-Match until the change is written, so that two requests with the
/// same ETag cannot both succeed. Names may share a lock, so a thread must not hold two.
class EditLocks {
 public:
  [[nodiscard]] std::unique_lock<std::mutex> lock(std::string_view name) {
    return std::unique_lock(locks_[std::hash<std::string_view>()(name) % locks_.size()]);
  }

 private:
  std::array<std::mutex, 64> locks_;
};

}  // namespace babelring::access

namespace babelring::launch {
class ControlPlane;
}
namespace babelring::translate {
class Pool;
}
namespace babelring::artifacts {
class Exports;
}

namespace babelring::alerts {
class AlertWatch;
}
namespace babelring::webhooks {
class Sender;
}

namespace babelring::api {

/// The state that the resources share. One per process; must outlive the HTTP server.
struct Service {
  store::Store& store;
  events::EventHub& events;
  artifacts::Roots checkpoint_roots;
  alerts::AlertWatch* alerts = nullptr;                 // evaluates alert rules; null: no alerts are raised
  webhooks::Sender* webhooks = nullptr;                 // sends deliveries; null: they wait
  launch::ControlPlane* control = nullptr;              // starts and supervises runs; null: this process starts none
  std::chrono::milliseconds config_check_time{60'000};  // max time of a submission's check
  translate::Pool* translators = nullptr;               // null: this process does not translate
  artifacts::Exports* exports = nullptr;                // null: this process exports no checkpoints
  http::AccessLog* access_log = nullptr;                // null: requests are not logged
  std::shared_ptr<const http::Lanes> lanes = nullptr;   // lanes that run the handlers; null: not reported in /metrics
  std::shared_ptr<telemetry::HttpMeter> meter = std::make_shared<telemetry::HttpMeter>();
  access::TokenService tokens{store};
  access::AuditLog audit{store, tokens};
  access::Idempotency idempotency{store};
  artifacts::Downloads downloads{};
  RunTexts run_texts{};
  http::RunRanks ranks{};  // reporting ranks
  verdict::HealthCache health{};
  WhatIfRuns what_if_runs{};
  http::RateLimiter checkpoint_requests{{.a_second = 0.1, .burst = 1}};  // per run
  access::EditLocks edits{};                                             // by run, checkpoint, webhook or "alert-rules"
  artifacts::Context artifacts{store, checkpoint_roots, audit, downloads};
  artifacts::RetentionService retention{artifacts};
  artifacts::BackupMaker backups{store};
  telemetry::NewerWorkers newer_workers{};
  std::string contract = {};  // openapi.json; make_router() sets it
};

/// Publishes an alert that was raised, cleared or acknowledged to the event streams.
void publish_alert(Service& service, const store::AlertRow& alert);

}  // namespace babelring::api
