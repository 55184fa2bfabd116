#pragma once

#include "nmt/base/json.h"
#include "server/store/rows.h"
#include "server/verdict/health.h"

namespace babelring::api {

/// Nothing has come from a running run for stale_after_ms.
bool is_stale(const store::RunRow& run, std::int64_t now_ms);

/// What can be said of a run now.
verdict::Health run_health(const store::RunRow& run, std::int64_t now_ms);

json::object health_item(const verdict::Health& health);

}  // namespace babelring::api
