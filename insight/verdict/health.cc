#include "insight/verdict/health.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "base/grouped.h"

namespace babelring::verdict {
namespace {

std::string at_update(const RunCondition& condition) {
  return condition.update > 0 ? fmt::format(" at update {}", grouped(static_cast<double>(condition.update))) : "";
}

/// ": WHY", or an empty string if unknown.
std::string because(std::string_view why) {
  return why.empty() ? "" : fmt::format(": {}", why);
}

std::string without_prefix(std::string_view text, std::string_view prefix) {
  if (text.starts_with(prefix)) text.remove_prefix(prefix.size());
  return std::string(text);
}

/// The detail, followed by the log's last error if that adds something.
std::string cause_of(const RunCondition& condition) {
  const std::string& error = condition.last_error;
  if (error.empty() || condition.detail.find(error) != std::string::npos) return condition.detail;
  if (condition.detail.empty() || error.find(condition.detail) != std::string::npos) return error;
  return fmt::format("{}; last error: {}", condition.detail, error);
}

std::string how_to_resume(const RunCondition& condition) {
  return condition.resumable ? "Resume" : "Run its command again; it resumes from the last checkpoint";
}

/// " 2026-11-27T22:46:00.000Z: rank 1 was killed".
std::string last_restart(const Restarts& restarts) {
  return (restarts.last_time.empty() ? "" : " " + restarts.last_time) + because(restarts.last_cause);
}

/// "restarted 2 of 3 times, last 2026-11-27T22:46:00.000Z: rank 1 was killed", or an empty string without restarts.
std::string restarts_text(const Restarts& restarts) {
  if (restarts.count == 0) return "";
  return fmt::format("restarted {} of {} times, last{}", restarts.count, restarts.max, last_restart(restarts));
}

/// " (restart 2 of 3)".
std::string nth_restart(const Restarts& restarts) {
  return restarts.count == 0 ? "" : fmt::format(" (restart {} of {})", restarts.count, restarts.max);
}

/// " after 2 of 3 restarts", or an empty string without restarts.
std::string after_restarts(const Restarts& restarts) {
  return restarts.count == 0 ? "" : fmt::format(" after {} of {} restarts", restarts.count, restarts.max);
}

HealthPart judge_running(const RunCondition& condition) {
  std::string restarts = restarts_text(condition.restarts);
  if (condition.silent_since.empty()) {
    if (restarts.empty()) return {.level = Level::good, .text = "Running"};
    restarts.front() = 'R';
    return {.level = Level::warning, .text = restarts};
  }
  return {.level = Level::bad,
          .text = fmt::format("Silent since {}: the last record is from update {}{}", condition.silent_since,
                              grouped(static_cast<double>(condition.update)), restarts.empty() ? "" : "; " + restarts),
          .action =
              "Check that its processes and hosts are running and can reach the server; if it has ended, run `nmt run "
              "sync` on its folder"};
}

}  // namespace

std::string_view to_string(Level level) {
  constexpr std::array<std::string_view, 4> names = {"good", "unknown", "warning", "bad"};
  return names[static_cast<std::size_t>(level)];
}

std::string_view to_string(Topic topic) {
  constexpr std::array<std::string_view, 5> names = {"state", "learning", "speed", "hosts", "alerts"};
  return names[static_cast<std::size_t>(topic)];
}

Health health_of(std::vector<HealthPart> parts) {
  std::stable_sort(parts.begin(), parts.end(), [](const auto& a, const auto& b) { return a.topic < b.topic; });
  // An unknown part does not hide a known one. It counts only if neither learning nor speed is known.
  const auto urgency = [](const HealthPart& part) { return part.level == Level::unknown ? Level::good : part.level; };
  const auto worst = std::max_element(parts.begin(), parts.end(),
                                      [&](const auto& a, const auto& b) { return urgency(a) < urgency(b); });
  const auto judged = [](const HealthPart& part) {
    return part.topic == Topic::learning || part.topic == Topic::speed;
  };
  const bool nothing_known = std::any_of(parts.begin(), parts.end(), judged) &&
                             std::none_of(parts.begin(), parts.end(), [&](const HealthPart& part) {
                               return judged(part) && part.level != Level::unknown;
                             });
  Health health{.level = worst->level, .headline = worst->text, .action = worst->action, .parts = {}};
  if (health.level == Level::good && nothing_known) health.level = Level::unknown;
  health.parts = std::move(parts);
  return health;
}

HealthPart judge_state(const RunCondition& condition) {
  const std::string& state = condition.state;
  if (state == "running") return judge_running(condition);
  if (state == "failed") {
    return {.level = Level::bad,
            .text = "Failed" + at_update(condition) + after_restarts(condition.restarts) + because(cause_of(condition)),
            .action = how_to_resume(condition)};
  }
  if (state == "lost") {
    return {.level = Level::bad,
            .text = "Lost" + at_update(condition) + after_restarts(condition.restarts) + because(cause_of(condition)),
            .action = how_to_resume(condition)};
  }
  if (state == "succeeded") {
    const bool healed = condition.restarts.count > 0;
    return {.level = healed ? Level::warning : Level::good,
            .text = "Finished" + at_update(condition) + after_restarts(condition.restarts) +
                    because(without_prefix(condition.detail, "finished: ")) +
                    (healed ? "; last restart" + last_restart(condition.restarts) : "")};
  }
  if (state == "stopped") {
    const std::string why = condition.detail == "stopped on request" ? " on request" : because(condition.detail);
    return {.text = "Stopped" + at_update(condition) + why + after_restarts(condition.restarts),
            .action = how_to_resume(condition)};
  }
  if (state == "restarting") {
    return {.level = Level::warning,
            .text = "Restarting after a fault" + at_update(condition) + nth_restart(condition.restarts) +
                    because(cause_of(condition))};
  }
  if (state == "suspended")
    return {.level = Level::warning, .text = "Suspended until it can go on" + because(condition.detail)};
  if (state == "stopping") return {.text = "Stopping"};
  if (state == "launching") return {.text = "Starting: no rank has reported yet"};
  if (state == "queued") return {.text = "Queued: waiting for a free slot" + because(condition.detail)};
  return {.text = state};
}

}  // namespace babelring::verdict
