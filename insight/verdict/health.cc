#include "insight/verdict/health.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <optional>

#include "base/text.h"

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
  if (restarts.by_hand) {
    return fmt::format("started again {} after a fault, last{}",
                       restarts.count == 1 ? "once" : fmt::format("{} times", restarts.count), last_restart(restarts));
  }
  return fmt::format("restarted {} of {} times, last{}", restarts.count, restarts.max, last_restart(restarts));
}

/// " (restart 2 of 3)".
std::string nth_restart(const Restarts& restarts) {
  return restarts.count == 0 ? "" : fmt::format(" (restart {} of {})", restarts.count, restarts.max);
}

/// " after 2 of 3 restarts" or, by hand, " after 2 faults"; an empty string without restarts.
std::string after_restarts(const Restarts& restarts) {
  if (restarts.by_hand && restarts.count > 0) {
    return fmt::format(" after {} {}", restarts.count, restarts.count == 1 ? "fault" : "faults");
  }
  return restarts.count == 0 ? "" : fmt::format(" after {} of {} restarts", restarts.count, restarts.max);
}

HealthPart judge_running(const RunCondition& condition) {
  std::string restarts = restarts_text(condition.restarts);
  if (condition.silent_since.empty()) {
    if (restarts.empty()) return {.level = Level::good, .text = "Running"};
    restarts.front() = restarts.front() == 'r' ? 'R' : 'S';
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
                    (healed ? (condition.restarts.by_hand ? "; last fault" : "; last restart") +
                                  last_restart(condition.restarts)
                            : "")};
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

namespace {

constexpr std::size_t few_updates = 8;       // fewer say nothing yet
constexpr double much_skipped = 0.1;         // fraction of the window
constexpr std::size_t present_updates = 16;  // the current loss is their mean
constexpr std::size_t rise_updates = 96;     // fewer do not show divergence
constexpr double diverged = 1.3;             // times the mean loss of the window's first half
constexpr std::size_t rises = 3;             // evaluations in a row with a rising loss
constexpr std::size_t patience = 5;          // evaluations without improvement
constexpr double better = 0.999;             // a loss below this times the best one is an improvement
constexpr double worse = 1.1;                // a loss above this times the best one, which is old, is overfitting

const char* const stop_overfitting =
    "Stop the run and use the best checkpoint; more data or a higher model.dropout delays overfitting";
const char* const lower_the_rate =
    "Lower optimizer.learning_rate or lengthen its warm-up, and resume from a checkpoint before this began";

HealthPart part(Level level, std::string text, std::string action = {}) {
  return {.topic = Topic::learning, .level = level, .text = std::move(text), .action = std::move(action)};
}

std::string counted(std::int64_t update) {
  return grouped(static_cast<double>(update));
}

bool is_bad(const TrainedUpdate& update) {
  return update.skipped || !std::isfinite(update.loss);
}

double mean_loss(const std::vector<double>& losses, std::size_t first, std::size_t count) {
  double sum = 0;
  for (std::size_t i = first; i < first + count; ++i) sum += losses[i];
  return sum / static_cast<double>(count);
}

std::optional<HealthPart> not_finite(const Course& course) {
  const auto all = course.updates.size();
  const auto bad = static_cast<std::size_t>(std::count_if(course.updates.begin(), course.updates.end(), is_bad));
  if (bad > 0 && static_cast<double>(bad) >= much_skipped * static_cast<double>(all)) {
    return part(Level::bad,
                fmt::format("Not learning: {} of the last {} updates had a non-finite loss or gradient", bad, all),
                lower_the_rate);
  }
  if (!course.evaluations.empty() && !std::isfinite(course.evaluations.back().loss)) {
    return part(Level::bad,
                fmt::format("The model is broken: its validation loss after update {} is not finite",
                            counted(course.evaluations.back().update)),
                lower_the_rate);
  }
  if (bad == 0) return std::nullopt;
  return part(Level::warning, fmt::format("{} of the last {} updates had a non-finite loss or gradient", bad, all),
              "Lower optimizer.learning_rate if their number grows");
}

std::optional<HealthPart> diverging(const Course& course) {
  std::vector<double> losses;
  for (const TrainedUpdate& update : course.updates) {
    if (!is_bad(update)) losses.push_back(update.loss);
  }
  if (losses.size() < rise_updates) return std::nullopt;
  const double before = mean_loss(losses, 0, losses.size() / 2),
               now = mean_loss(losses, losses.size() - present_updates, present_updates);
  if (!(before > 0 && now > diverged * before)) return std::nullopt;
  return part(Level::bad,
              fmt::format("Diverging: the training loss rose from {:.3f} to {:.3f} within {} updates", before, now,
                          course.updates.size()),
              lower_the_rate);
}

/// While BLEU still rises, it is the better measure: the loss can rise while translations improve.
bool last_bleu_is_best(const std::vector<ValidationResult>& evaluations) {
  const double last = evaluations.back().sacrebleu;
  return std::all_of(evaluations.begin(), evaluations.end() - 1,
                     [&](const ValidationResult& evaluation) { return !(evaluation.sacrebleu >= last); }) &&
         std::isfinite(last);
}

std::optional<HealthPart> overfitting(const std::vector<ValidationResult>& evaluations) {
  if (evaluations.size() <= rises || last_bleu_is_best(evaluations)) return std::nullopt;
  const std::size_t first = evaluations.size() - 1 - rises;
  for (std::size_t i = first; i + 1 < evaluations.size(); ++i) {
    if (!(evaluations[i + 1].loss > evaluations[i].loss)) return std::nullopt;
  }
  return part(Level::warning,
              fmt::format("Overfitting: the validation loss has risen for {} evaluations, from {:.3f} at update {} to "
                          "{:.3f} at update {}",
                          rises, evaluations[first].loss, counted(evaluations[first].update), evaluations.back().loss,
                          counted(evaluations.back().update)),
              stop_overfitting);
}

/// Found if none of the last `patience` evaluations is better than all before them. Overfitting if the last one is much
/// worse: its loss need not rise any more.
std::optional<HealthPart> plateau(const std::vector<ValidationResult>& evaluations) {
  if (evaluations.size() <= patience) return std::nullopt;
  const auto old_end = evaluations.end() - static_cast<std::ptrdiff_t>(patience);
  const ValidationResult* best = nullptr;
  double best_bleu = -1;
  for (auto each = evaluations.begin(); each != old_end; ++each) {
    if (std::isfinite(each->loss) && (best == nullptr || each->loss < best->loss)) best = &*each;
    if (each->sacrebleu > best_bleu) best_bleu = each->sacrebleu;
  }
  if (best == nullptr) return std::nullopt;
  const bool improved = std::any_of(old_end, evaluations.end(), [&](const ValidationResult& each) {
    return each.loss < better * best->loss || each.sacrebleu > best_bleu;
  });
  if (improved) return std::nullopt;
  const double last = evaluations.back().loss;
  if (last > worse * best->loss) {
    return part(Level::warning,
                fmt::format("Overfitting: the validation loss is {:.3f}, its best was {:.3f} at update {}", last,
                            best->loss, counted(best->update)),
                stop_overfitting);
  }
  return part(
      Level::warning,
      fmt::format("Plateau: no improvement for {} evaluations; the validation loss is {:.3f}, its best was {:.3f} "
                  "at update {}",
                  patience, last, best->loss, counted(best->update)),
      "Stop the run, or lower the learning rate");
}

HealthPart no_problem(const Course& course) {
  if (course.updates.empty() && course.evaluations.empty()) {
    return part(Level::unknown, "No update has been reported yet");
  }
  std::vector<double> losses;
  for (const TrainedUpdate& update : course.updates) losses.push_back(update.loss);
  const std::size_t count = std::min(present_updates, losses.size());
  std::string text;
  if (count > 0) text = fmt::format("Training loss {:.3f}", mean_loss(losses, losses.size() - count, count));
  if (!course.evaluations.empty()) {
    const ValidationResult& last = course.evaluations.back();
    text += fmt::format("{} {:.3f} after update {}", text.empty() ? "Validation loss" : ", validation loss", last.loss,
                        counted(last.update));
  }
  const bool early = course.updates.size() < few_updates && course.evaluations.empty();
  return part(early ? Level::unknown : Level::good, text);
}

}  // namespace

HealthPart judge_learning(const Course& course) {
  if (auto found = not_finite(course); found && found->level == Level::bad) return *found;
  if (auto found = diverging(course)) return *found;
  if (auto found = overfitting(course.evaluations)) return *found;
  if (auto found = plateau(course.evaluations)) return *found;
  if (auto found = not_finite(course)) return *found;
  return no_problem(course);
}

}  // namespace babelring::verdict
