#pragma once

#include <string>
#include <vector>

#include "insight/plot.h"
#include "insight/report/run_history.h"

namespace babelring::insight {

/// The nll of one set by update.
struct LossCurve {
  std::vector<double> updates, nll;
  std::vector<double> entropy;  // exact, of the source of the same tokens; NaN: unknown

  std::size_t size() const { return updates.size(); }
  /// Where the entropy is known: nll − entropy, the distance to the best possible model. NaN elsewhere.
  std::vector<double> excess() const;
  bool knows_entropy() const;  // of the last evaluation
  /// Index of the lowest nll. Requires at least one.
  std::size_t best() const;
};

/// The validation set: the configured one, or the first that was evaluated.
std::string main_set(const RunHistory& history);

/// The evaluations on a set, by update, whose losses are comparable with the newest one: of the same version of the
/// set.
struct ComparableEvals {
  std::vector<const EvalRecord*> evals;
  std::size_t left_out = 0;  // evaluations of another version of the set
  std::string scoring;       // of the newest that tells it; BLEU of others is not comparable, see bleu_is_comparable()

  bool bleu_is_comparable(const EvalRecord& eval) const {
    return scoring.empty() || eval.scoring.empty() || eval.scoring == scoring;
  }
};
ComparableEvals comparable_evals(const RunHistory& history, const std::string& set);

/// The finite, comparable losses on a set.
LossCurve loss_curve(const RunHistory& history, const std::string& set);

/// The nll of an evaluation; its loss if the record has no nll. May be NaN.
double nll_of(const EvalRecord& eval);

/// A plot of lines over updates, without series.
Plot curve_plot(const std::string& title, const std::string& y_label, const std::vector<double>& updates);

}  // namespace babelring::insight
