#include "insight/verdict/health_alerts.h"

#include <fmt/format.h>

#include <algorithm>

namespace babelring::verdict {
namespace {

/// Somebody already handles an acknowledged alert, but ranks that differ stay different.
Level level_of_alert(const RunAlert& alert) {
  if (alert.kind == "ranks_differ") return Level::bad;
  const bool no_progress = alert.kind == "stall" || alert.kind == "worker_lost";
  return no_progress && !alert.acknowledged ? Level::bad : Level::warning;
}

}  // namespace

HealthPart judge_alerts(const std::vector<RunAlert>& alerts) {
  if (alerts.empty()) return {.topic = Topic::alerts, .level = Level::good, .text = "No open alert"};
  const auto worst = std::max_element(alerts.begin(), alerts.end(), [](const RunAlert& a, const RunAlert& b) {
    const auto rank = [](const RunAlert& alert) {
      return std::pair(level_of_alert(alert), alert.kind == "ranks_differ");
    };
    return rank(a) < rank(b);
  });
  const std::string more = alerts.size() > 1 ? fmt::format("{} alerts, the most severe: ", alerts.size()) : "Alert: ";
  return {.topic = Topic::alerts,
          .level = level_of_alert(*worst),
          .text = more + worst->message,
          .action = worst->kind == "ranks_differ"
                        ? "Stop the run and resume from a checkpoint before this update: its ranks are training "
                          "different models"
                        : ""};
}

}  // namespace babelring::verdict
