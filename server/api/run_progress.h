#pragma once

#include "base/json.h"
#include "server/store/runs.h"

namespace babelring::api {

/// The member `progress` of a run: the fraction done, the time left, and the condition that ends training.
json::object progress_item(const store::RunRow& run, bool stale);

}  // namespace babelring::api
