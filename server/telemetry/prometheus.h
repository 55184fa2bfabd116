#pragma once

#include <string>

#include "server/access/audit_log.h"
#include "server/events/event_hub.h"
#include "server/http/access_log.h"
#include "server/http/lanes.h"
#include "server/launch/heartbeats.h"
#include "server/store/store.h"
#include "server/telemetry/http_meter.h"
#include "server/translate/pool.h"

namespace babelring::telemetry {

/// Sources of the metrics. The metrics of a null pointer are left out.
struct Sources {
  store::Store& store;
  const events::EventHub& events;
  const access::AuditLog& audit;
  const http::AccessLog* access_log = nullptr;
  const http::Lanes* lanes = nullptr;
  const translate::Pool* translators = nullptr;
  const launch::Heartbeats* heartbeats = nullptr;
};

/// All metrics in Prometheus text format 0.0.4. Throws SqlFailure.
std::string metrics_text(const Sources& sources, const HttpMeter& meter);

}  // namespace babelring::telemetry
