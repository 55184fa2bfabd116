#pragma once

#include "base/json.h"
#include "server/store/rows.h"

namespace babelring::api {

/// How much of its training a run has done, how long the rest takes, and what ends it: the member `progress` of a run.
json::object progress_item(const store::RunRow& run, bool stale);

}  // namespace babelring::api
