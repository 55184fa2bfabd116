#pragma once

#include <cstddef>
#include <limits>
#include <string>
#include <vector>

#include "base/result.h"

namespace babelring {

/// The scores of bootstrap resamples of a system's sentences by one metric (Koehn 2004, "Statistical significance tests
/// for machine translation evaluation"). Two systems are compared by them alone, without texts or the metric: with the
/// same seed, resample k of both has the same sentences. Numbers are equal to those of sacreBLEU 2.6.0 with numpy 2,
/// which keeps single-precision numbers where all scores are such.
struct Resamples {
  std::string metric;      // "BLEU", "chrF2"
  std::string signature;   // of the metric
  std::string references;  // digest of the reference texts, in order
  std::string statistics;  // digest of the statistics of all sentences, by which equal systems are known
  double score = 0;        // of the sentences as they are
  std::vector<double> scores;
};

/// Max number of metrics in an EvalRecord, and of scores of each.
inline constexpr std::size_t max_resampled_metrics = 4, max_resamples = 1000;

/// The p-value of systems whose sentences all have equal statistics. No test gives it otherwise.
inline constexpr double p_of_equals = 1;

/// How much better a system is than a baseline.
struct ScoreDifference {
  double difference = 0;  // of the scores, system less baseline
  // In (0, 1), by paired bootstrap. p_of_equals: the systems are equal. NaN: unknown, or there is no difference to
  // test.
  double p_value = std::numeric_limits<double>::quiet_NaN();
};

/// The Error says why the scores do not compare: "other validation set".
Result<ScoreDifference> compare(const Resamples& system, const Resamples& baseline);

/// "0.30 BLEU better than update 400 (p = 0.41)", "0.05 BLEU worse than NAME" if p is NaN, "equal to NAME in BLEU", or
/// "as good as NAME in BLEU" if only the scores are equal.
std::string difference_text(const ScoreDifference& difference, const std::string& metric, const std::string& than);

/// The mean of bootstrapped scores, and half the width of the range that holds 95 % of them.
struct ConfidenceInterval {
  double mean = 0, half_width = 0;
};
ConfidenceInterval interval_of(const std::vector<double>& scores);

/// The probability, in (0, 1], that resamples of the same process differ from their mean difference by more than
/// `observed`, the absolute difference of the two systems. Throws Failure if their numbers of resamples differ.
double paired_p_value(const std::vector<double>& system, const std::vector<double>& baseline, double observed);

/// The fraction of samples above what was observed, with the observation itself as one of them (Phipson and Smyth 2010,
/// "Permutation p-values should never be zero").
double p_of_samples(std::size_t above, std::size_t samples);

}  // namespace babelring
