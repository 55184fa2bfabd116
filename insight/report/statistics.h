#pragma once

#include <cstddef>
#include <optional>
#include <span>
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
  /// The bound of all losses, and so of every forecast: 0, or the exact entropy where it is known. At most the lowest
  /// nll, which may lie a little below the entropy by chance.
  double least() const;
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

/// A value with the bounds of its 95 % interval.
struct Estimate {
  double value = 0, low = 0, high = 0;
};

/// The slope of y over x by least squares, with its interval by Student's t. Nothing with fewer than three points or
/// equal x.
std::optional<Estimate> slope_of(std::span<const double> x, std::span<const double> y);

/// nll = a + b u^−c with a ≥ `least` (0: no model has a negative loss), b ≥ 0 and c between 0.05 and 3, by least
/// squares: a grid over c, linear in a and b. Nothing with fewer than four points, if y does not fall, or if the best c
/// is an end of the grid: then the values follow no such law.
struct PowerLaw {
  double a = 0, b = 0, c = 0;
  double at(double u) const;
};
std::optional<PowerLaw> fit_power_law(std::span<const double> u, std::span<const double> y, double least = 0);

/// The change that the law expects between the last u and twice of it, with its interval: the changes under all laws
/// whose sum of squares is at most 1 + t²/(n − 3) times the smallest one (profile likelihood, with Student's t).
/// Requires the law that fit_power_law() found for these values with the same `least`.
Estimate change_by_doubling(std::span<const double> u, std::span<const double> y, const PowerLaw& law,
                            double least = 0);

/// Pearson's correlation with its interval by Fisher's transformation. Nothing with fewer than four points or where one
/// side does not vary.
std::optional<Estimate> pearson(std::span<const double> x, std::span<const double> y);
/// Spearman's: Pearson's of the ranks; equal values have the mean of their ranks.
std::optional<Estimate> spearman(std::span<const double> x, std::span<const double> y);

/// Student's t for a two-sided 95 % interval. Requires at least one degree of freedom.
double student_t95(std::size_t degrees_of_freedom);

}  // namespace babelring::insight
