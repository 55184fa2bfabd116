#include "insight/verdict/health_alerts.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

namespace babelring::verdict {
namespace {

/// Somebody already handles an acknowledged alert, but ranks that differ stay different.
Level level_of_alert(const RunAlert& alert) {
  if (alert.kind == "ranks_differ") return Level::bad;
  if (alert.kind == "finished") return Level::good;
  constexpr std::array<std::string_view, 4> no_progress = {"stall", "worker_lost", "silent", "failed"};
  const bool bad = std::find(no_progress.begin(), no_progress.end(), alert.kind) != no_progress.end();
  return bad && !alert.acknowledged ? Level::bad : Level::warning;
}

/// The state of the run says the rest of these alerts.
std::string text_of_alert(const RunAlert& alert) {
  constexpr std::array<std::string_view, 4> about_state = {"silent", "restarted", "failed", "finished"};
  const bool said = std::find(about_state.begin(), about_state.end(), alert.kind) != about_state.end();
  return said ? alert.kind : alert.message;
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
          .text = more + text_of_alert(*worst),
          .action = worst->kind == "ranks_differ"
                        ? "Stop the run and resume from a checkpoint before this update: its ranks are training "
                          "different models"
                        : ""};
}

}  // namespace babelring::verdict
