#include "server/api/run_progress.h"

#include <algorithm>
#include <boost/json/object.hpp>
#include <cmath>
#include <optional>

#include "base/grouped.h"

namespace babelring::api {
namespace {

struct Progress {
  std::optional<double> fraction, seconds_left;
};

/// The progress from the newest record. For workers that do not report it, the fraction of max_updates and the step
/// time of the newest update.
Progress progress_of(const store::RunRow& run) {
  Progress progress;
  const double done = run.last.value("fraction_done"), left = run.last.value("seconds_left");
  if (done > 0) {
    progress.fraction = std::min(done, 1.0);
    if (left > 0 || done >= 1) progress.seconds_left = left;
  } else if (run.max_updates > 0) {
    const auto update = static_cast<double>(run.last.step), end = static_cast<double>(run.max_updates);
    progress.fraction = std::clamp(update / end, 0.0, 1.0);
    const double step_ms = run.last.value("step_ms");
    if (update > 0 && std::isfinite(step_ms)) progress.seconds_left = std::max(end - update, 0.0) * step_ms / 1000;
  }
  if (run.state == store::RunState::succeeded) progress.fraction = 1;
  return progress;
}

std::string end_of(const store::RunRow& run) {
  if (!run.end.empty()) return run.end;
  return run.max_updates > 0 ? grouped(static_cast<double>(run.max_updates)) + " updates" : "";
}

}  // namespace

json::object progress_item(const store::RunRow& run, bool stale) {
  const Progress progress = progress_of(run);
  const bool trains = run.state == store::RunState::running && !stale;
  json::value left = nullptr;
  if (trains && progress.seconds_left) left = static_cast<std::int64_t>(std::ceil(*progress.seconds_left));
  return {{"fraction", progress.fraction ? json::value(*progress.fraction) : json::value(nullptr)},
          {"seconds_left", std::move(left)},
          {"end", end_of(run)},
          {"at_latest", run.may_end_sooner}};
}

}  // namespace babelring::api
