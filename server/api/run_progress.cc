#include "server/api/run_progress.h"

#include <fmt/format.h>

#include <algorithm>
#include <boost/json/object.hpp>
#include <cmath>

#include "server/verdict/health.h"

namespace babelring::api {
namespace {

/// Seconds until max_updates at the speed of the newest step, or null.
json::value seconds_left(const store::RunRow& run) {
  const double step_ms = run.last.value("step_ms");
  if (run.max_updates <= 0 || run.last.step == 0 || !std::isfinite(step_ms)) return nullptr;
  const auto left = static_cast<double>(std::max<std::int64_t>(run.max_updates - run.last.step, 0));
  return static_cast<std::int64_t>(std::ceil(left * step_ms / 1000));
}

/// null where the run says nothing of its end.
json::value fraction(const store::RunRow& run) {
  if (run.state == "succeeded") return 1.0;
  if (run.max_updates <= 0) return nullptr;
  return std::clamp(static_cast<double>(run.last.step) / static_cast<double>(run.max_updates), 0.0, 1.0);
}

}  // namespace

json::object progress_item(const store::RunRow& run, bool stale) {
  const bool moves = run.state == "running" && !stale;
  return {{"fraction", fraction(run)},
          {"seconds_left", moves ? seconds_left(run) : json::value(nullptr)},
          {"end", run.max_updates > 0 ? verdict::grouped(run.max_updates) + " updates" : ""},
          {"at_latest", false}};
}

}  // namespace babelring::api
