#include "insight/verdict/learning.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <optional>

#include "base/grouped.h"

namespace babelring::verdict {
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
