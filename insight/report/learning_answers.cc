#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <optional>

#include "base/records/records.h"
#include "insight/report/answers.h"
#include "insight/report/report_text.h"
#include "insight/report/statistics.h"
#include "insight/steps.h"

namespace babelring::insight {
namespace {

constexpr std::size_t min_evaluations = 4;  // for a trend
constexpr std::size_t max_trend_evaluations = 12;
constexpr double small_rise = 0.005;  // of the best loss
constexpr double small_gain = 0.01;   // of the loss, by twice the updates

std::string too_few(const LossCurve& curve) {
  return fmt::format("{} of the validation set {} a loss; a trend needs {}",
                     count_of(static_cast<double>(curve.size()), "evaluation"), curve.size() == 1 ? "has" : "have",
                     min_evaluations);
}

std::vector<double> last_of(const std::vector<double>& values, std::size_t count) {
  return {values.end() - static_cast<std::ptrdiff_t>(count), values.end()};
}

std::size_t trend_length(std::size_t evaluations) {
  return std::clamp(evaluations / 2, min_evaluations, max_trend_evaluations);
}

/// The change of the last values per doubling of updates, with its interval.
std::optional<Estimate> trend_of(const std::vector<double>& updates, const std::vector<double>& values) {
  const std::size_t count = std::min(trend_length(updates.size()), updates.size());
  std::vector<double> logs;
  for (const double update : last_of(updates, count)) logs.push_back(std::log2(update));
  return slope_of(logs, last_of(values, count));
}

/// The part of a change that the loss can make: it does not fall below the least one.
Estimate possible(Estimate change, const LossCurve& curve) {
  const double most = curve.least() - curve.nll.back();
  for (double* each : {&change.value, &change.low, &change.high}) *each = std::max(*each, most);
  return change;
}

std::string signed_words(double value) {
  return fmt::format("{}{:.4f}", value < 0 ? "−" : "+", std::abs(value));
}

std::string interval_words(const Estimate& estimate) {
  return signed_words(estimate.low) + " to " + signed_words(estimate.high);
}

/// How the run ended, as a sentence with a leading space; empty if that is unknown.
std::string end_words(const RunHistory& history) {
  const auto updates = static_cast<double>(history.last_update());
  const std::string reached = history.max_updates > 0
                                  ? fmt::format("after {} of {}", count_words(updates),
                                                count_of(static_cast<double>(history.max_updates), "update"))
                                  : fmt::format("after {}", count_of(updates, "update"));
  if (history.events.empty()) return "";
  const LifecycleEvent& last = history.events.back();
  if (last.event == "stopped") return fmt::format(" It was stopped on request {}.", reached);
  if (last.event == "failed") return fmt::format(" It failed {}: {}.", reached, last.detail);
  if (last.event != "finished") return fmt::format(" It has not ended: its records stop {}.", reached);
  // "finished: 12 minutes of training", "early stopping: 5 evaluations without a better one"
  constexpr std::string_view limit = "finished: ";
  if (!last.detail.starts_with(limit)) return fmt::format(" It ended early, {} ({}).", reached, last.detail);
  if (history.max_updates > 0 && history.last_update() >= history.max_updates) {
    return fmt::format(" It ended as configured, {}.", reached);
  }
  return fmt::format(" It ended as configured, {}, by its limit of {}.", reached, last.detail.substr(limit.size()));
}

const HistoryCheckpoint* best_checkpoint(const RunHistory& history) {
  const HistoryCheckpoint* best = nullptr;
  for (const HistoryCheckpoint& each : history.checkpoints) {
    if (each.checkpoint.best) best = &each;
  }
  return best;
}

/// How far the last loss is from the least that any model can reach, as a sentence with a leading space; empty if the
/// entropy is unknown.
std::string excess_words(const LossCurve& curve, Answer& answer) {
  if (!curve.knows_entropy()) return "";
  const double entropy = curve.entropy.back(), excess = curve.nll.back() - entropy;
  answer.add("entropy", entropy, "nats");
  answer.add("excess", excess, "nats");
  return fmt::format(
      " The exact entropy of the held-out sequences is {:.4f} nats, which no model can fall below; the last loss lies "
      "{:.4f} nats above it ({} of it).",
      entropy, excess, percent_words(excess / entropy));
}

/// The change by twice the updates with its interval and its source, to follow the verdict.
std::string change_words(const Estimate& change, const LossCurve& curve, bool by_fit, Answer& answer) {
  answer.add("nll_per_doubling", change.value, "nats");
  answer.add("nll_per_doubling_low", change.low, "nats");
  answer.add("nll_per_doubling_high", change.high, "nats");
  const std::string source =
      by_fit ? fmt::format("fit of all {} evaluations", curve.size())
             : fmt::format("trend of the last {} evaluations", std::min(trend_length(curve.size()), curve.size()));
  return fmt::format(": by twice the updates it changes by {} nats (95 % interval {}; {})", signed_words(change.value),
                     interval_words(change), source);
}

/// The fitted law as a sentence with a leading space.
std::string law_words(const PowerLaw& law, Answer& answer) {
  answer.add("fit_a", law.a, "nats");
  answer.add("fit_b", law.b, "nats");
  answer.add("fit_c", law.c);
  return fmt::format(" The fit of all evaluations is nll = {:.3f} + {:.4g} · u^−{:.3f}.", law.a, law.b, law.c);
}

/// The fit goes on to twice the updates, which the answer speaks of.
Plot fit_plot(LossCurve curve, const std::optional<PowerLaw>& law) {
  if (law) {
    curve.updates.push_back(2 * curve.updates.back());
    curve.nll.push_back(verdict::unknown_value);
    curve.entropy.push_back(curve.entropy.back());
  }
  Plot plot = curve_plot("Validation loss (nll) and its fit", "nats per target token", curve.updates);
  plot.log_x = true;
  plot.series.push_back({"validation", curve.nll});
  if (law) {
    PlotSeries fit{"fit", {}, true};
    for (const double update : curve.updates) fit.values.push_back(law->at(update));
    plot.series.push_back(std::move(fit));
  }
  if (curve.knows_entropy()) plot.series.push_back({"exact entropy", curve.entropy});
  return plot;
}

/// The values of a set at the updates of another curve; NaN where it has none.
std::vector<double> aligned(const LossCurve& curve, const std::vector<double>& updates) {
  std::vector<double> values;
  for (const double update : updates) {
    const auto found = std::ranges::find(curve.updates, update);
    values.push_back(found == curve.updates.end() ? verdict::unknown_value
                                                  : curve.nll[static_cast<std::size_t>(found - curve.updates.begin())]);
  }
  return values;
}

}  // namespace

Answer trained_to_the_end(const RunHistory& history) {
  Answer answer{.question_number = 2, .key = "trained_to_the_end", .question = "Is it trained to the end?"};
  const LossCurve curve = loss_curve(history, main_set(history));
  answer.add("evaluations", static_cast<double>(curve.size()));
  if (curve.size() < min_evaluations) {
    answer.cannot_be_told(too_few(curve));
    answer.text += excess_words(curve, answer) + end_words(history);
    answer.rests_on = {"evaluation records"};
    return answer;
  }
  const auto trend = trend_of(curve.updates, curve.nll);
  const bool falls = trend && trend->high < 0, rises = trend && trend->low > 0;
  const auto law = rises ? std::nullopt : fit_power_law(curve.updates, curve.nll, curve.least());
  std::optional<Estimate> change = trend;
  if (falls && law) change = change_by_doubling(curve.updates, curve.nll, *law, curve.least());
  if (change) change = possible(*change, curve);
  if (rises) {
    answer.text = "Beyond its best: the validation loss rises";
  } else if (falls && -change->value > small_gain * curve.nll.back()) {
    answer.text = "No: the validation loss still falls";
  } else if (falls) {
    answer.text = "Almost: the validation loss still falls, but slowly";
  } else {
    answer.text = "Yes: the validation loss shows no clear trend";
  }
  if (change) answer.text += change_words(*change, curve, falls && law, answer);
  answer.text += ".";
  if (law) answer.text += law_words(*law, answer);
  answer.text += excess_words(curve, answer) + end_words(history);
  answer.plots.push_back(fit_plot(curve, law));
  answer.rests_on = {
      fmt::format("{} of set {}", count_of(static_cast<double>(curve.size()), "evaluation record"), main_set(history)),
      "Student's t for the interval, for a fit by profile likelihood; the evaluations count as independent"};
  return answer;
}

namespace {

/// How the validation loss goes beside that of the training sample.
struct OverfitSigns {
  LossCurve valid;
  std::vector<double> of_train;           // at the updates of `valid`; NaN where the sample was not evaluated
  std::vector<double> gap_updates, gaps;  // where both were
  std::optional<Estimate> gap_trend, train_trend;
  std::size_t best = 0;  // index into valid
  bool rises = false;    // since `best`

  explicit OverfitSigns(const RunHistory& history) : valid(loss_curve(history, main_set(history))) {
    const LossCurve train = loss_curve(history, train_sample_set);
    of_train = aligned(train, valid.updates);
    for (std::size_t i = 0; i < valid.size(); ++i) {
      if (!std::isfinite(of_train[i])) continue;
      gap_updates.push_back(valid.updates[i]);
      gaps.push_back(valid.nll[i] - of_train[i]);
    }
    if (sampled()) {
      gap_trend = trend_of(gap_updates, gaps);
      train_trend = trend_of(train.updates, train.nll);
    }
    if (valid.size() == 0) return;
    best = valid.best();
    rises = valid.size() - 1 - best >= 3 && valid.nll.back() - valid.nll[best] > small_rise * valid.nll[best];
  }
  bool sampled() const { return gaps.size() >= min_evaluations; }
};

std::string overfit_words(const OverfitSigns& signs, const std::string& since) {
  const std::string best = count_words(signs.valid.updates[signs.best]);
  if (!signs.sampled()) {
    return fmt::format(
        "Yes, most likely since update {}: the validation loss rises; {}. No sample of the training set was evaluated "
        "(validation.train_sample), so the loss on it is unknown.",
        best, since);
  }
  std::string text;
  if (signs.rises && signs.train_trend && signs.train_trend->value < 0) {
    text = fmt::format(
        "Yes, since update {}: from there the validation loss rises while that of the training sample falls; {}.", best,
        since);
  } else if (signs.gap_trend && signs.gap_trend->low > 0) {
    text = fmt::format(
        "Not yet: the validation loss does not rise ({}), but its distance to the training sample grows.", since);
  } else {
    text = fmt::format("No: the validation loss does not rise while that of the training sample falls; {}.", since);
  }
  text += fmt::format(" The validation loss lies {:.3f} nats above that of the training sample", signs.gaps.back());
  if (!signs.gap_trend) return text + ".";
  return text + fmt::format("; for twice the updates this changes by {} nats (95 % interval {}).",
                            signed_words(signs.gap_trend->value), interval_words(*signs.gap_trend));
}

void add_overfit_numbers(const OverfitSigns& signs, Answer& answer) {
  const LossCurve& valid = signs.valid;
  answer.add("best_update", valid.updates[signs.best], "updates");
  answer.add("best_nll", valid.nll[signs.best], "nats");
  answer.add("last_nll", valid.nll.back(), "nats");
  if (signs.rises) answer.add("rises_since_update", valid.updates[signs.best], "updates");
  if (signs.sampled()) answer.add("gap", signs.gaps.back(), "nats");
  if (!signs.gap_trend) return;
  answer.add("gap_per_doubling", signs.gap_trend->value, "nats");
  answer.add("gap_per_doubling_low", signs.gap_trend->low, "nats");
  answer.add("gap_per_doubling_high", signs.gap_trend->high, "nats");
}

}  // namespace

Answer overfitting(const RunHistory& history) {
  Answer answer{.question_number = 3, .key = "overfitting", .question = "Does it overfit?"};
  const OverfitSigns signs(history);
  const LossCurve& valid = signs.valid;
  if (history.of_sequences() && verdict::config_scalar(history.config, "data.folder").empty()) {
    answer.text = "No: no sequence is trained on twice, because the generator makes new ones for every update.";
    answer.text += excess_words(valid, answer);
    if (valid.size() > 0) add_overfit_numbers(signs, answer);
    answer.rests_on = {"the resolved configuration", "evaluation records"};
    return answer;
  }
  answer.rests_on = {"evaluation records"};
  if (valid.size() < min_evaluations) {
    answer.cannot_be_told(too_few(valid));
    return answer;
  }
  add_overfit_numbers(signs, answer);
  const std::string since =
      fmt::format("its best was {:.3f} nats after update {}, its last is {:.3f}", valid.nll[signs.best],
                  count_words(valid.updates[signs.best]), valid.nll.back());
  if (signs.sampled() || signs.rises) {
    answer.text = overfit_words(signs, since);
  } else {
    answer.cannot_be_told("no sample of the training set was evaluated (validation.train_sample)");
    answer.text += fmt::format(" The validation loss alone shows no sign of it: {}.", since);
  }
  if (const HistoryCheckpoint* checkpoint = best_checkpoint(history))
    answer.text += fmt::format(" The best checkpoint is {}.", checkpoint->checkpoint.name);
  Plot plot = curve_plot("Loss on validation set and training sample", "nats per target token", valid.updates);
  plot.series.push_back({"validation", valid.nll});
  if (!signs.gaps.empty()) plot.series.push_back({"training sample", signs.of_train});
  answer.plots.push_back(std::move(plot));
  return answer;
}

}  // namespace babelring::insight
