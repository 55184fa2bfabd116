#include "insight/report/loss_curve.h"

#include <algorithm>
#include <cmath>

#include "base/records/evaluated_set.h"
#include "insight/steps/config_scalar.h"

namespace babelring::insight {

std::size_t LossCurve::best() const {
  return static_cast<std::size_t>(std::ranges::min_element(nll) - nll.begin());
}

std::vector<double> LossCurve::excess() const {
  std::vector<double> values;
  for (std::size_t i = 0; i < size(); ++i) values.push_back(nll[i] - entropy[i]);
  return values;
}

bool LossCurve::knows_entropy() const {
  return size() > 0 && std::isfinite(entropy.back());
}

double nll_of(const EvalRecord& eval) {
  return eval.nll > 0 ? eval.nll : eval.loss;
}

std::string main_set(const RunHistory& history) {
  const std::string configured = verdict::config_scalar(history.config, "data.valid_set");
  std::string first;
  for (const HistoryEval& each : history.evals) {
    if (each.eval.set == configured) return configured;
    if (first.empty() && each.eval.set != train_sample_set) first = each.eval.set;
  }
  return first;
}

ComparableEvals comparable_evals(const RunHistory& history, const std::string& set) {
  ComparableEvals found;
  std::string content;
  for (const HistoryEval& each : history.evals) {
    if (each.eval.set != set) continue;
    if (!each.eval.set_digest.empty()) content = each.eval.set_digest;
    if (!each.eval.scoring.empty()) found.scoring = each.eval.scoring;
  }
  for (const HistoryEval& each : history.evals) {
    if (each.eval.set != set) continue;
    const bool same = content.empty() || each.eval.set_digest.empty() || each.eval.set_digest == content;
    if (same) {
      found.evals.push_back(&each.eval);
    } else {
      ++found.left_out;
    }
  }
  return found;
}

LossCurve loss_curve(const RunHistory& history, const std::string& set) {
  LossCurve curve;
  for (const EvalRecord* eval : comparable_evals(history, set).evals) {
    const double nll = nll_of(*eval);
    if (!std::isfinite(nll) || nll <= 0 || eval->update < 1) continue;
    curve.updates.push_back(static_cast<double>(eval->update));
    curve.nll.push_back(nll);
    curve.entropy.push_back(eval->entropy);
  }
  return curve;
}

Plot curve_plot(const std::string& title, const std::string& y_label, const std::vector<double>& updates) {
  return {.kind = Plot::Kind::lines, .title = title, .x_label = "update", .y_label = y_label, .x = updates};
}

}  // namespace babelring::insight
