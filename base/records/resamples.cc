#include "base/records/resamples.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>

#include "base/failure.h"

namespace babelring {
namespace {

/// The sum in the order of numpy, which decides the last digits: eight lanes in parts of at most 128, by halves beyond.
template <class Real>
Real numpy_sum(const Real* values, std::size_t count) {
  constexpr std::size_t lanes = 8, max_part = 128;
  if (count > max_part) {
    const std::size_t half = count / 2 - count / 2 % lanes;
    return numpy_sum(values, half) + numpy_sum(values + half, count - half);
  }
  if (count < lanes) return std::accumulate(values, values + count, Real{0});
  std::array<Real, lanes> sums;
  std::copy_n(values, lanes, sums.begin());
  std::size_t i = lanes;
  for (; i + lanes <= count; i += lanes) {
    for (std::size_t lane = 0; lane < lanes; ++lane) sums[lane] += values[i + lane];
  }
  const Real sum = ((sums[0] + sums[1]) + (sums[2] + sums[3])) + ((sums[4] + sums[5]) + (sums[6] + sums[7]));
  return std::accumulate(values + i, values + count, sum);
}

template <class Real>
Real numpy_mean(const std::vector<Real>& values) {
  return numpy_sum(values.data(), values.size()) / static_cast<Real>(values.size());
}

/// numpy keeps numbers of single precision, which BLEU's are not, and no zeros that were not computed.
bool single_precision(const std::vector<double>& scores) {
  return std::all_of(scores.begin(), scores.end(), [](double score) {
    return score != 0 && score == static_cast<double>(static_cast<float>(score));
  });
}

/// 1/40 of the scores lie on each side of the interval.
template <class Real>
ConfidenceInterval interval_in(std::vector<double> scores) {
  std::sort(scores.begin(), scores.end());
  const std::vector<Real> values(scores.begin(), scores.end());
  const std::size_t cut = values.size() / 40;
  const Real width = values[values.size() - cut - 1] - values[cut];
  return {.mean = numpy_mean(values), .half_width = width / 2};
}

template <class Real>
double bootstrap_p(const std::vector<double>& a, const std::vector<double>& b, double observed) {
  std::vector<Real> differences;
  differences.reserve(a.size());
  for (std::size_t i = 0; i < a.size(); ++i) {
    differences.push_back(std::abs(static_cast<Real>(a[i]) - static_cast<Real>(b[i])));
  }
  const Real expected = numpy_mean(differences), limit = static_cast<Real>(observed);
  const auto above = std::count_if(differences.begin(), differences.end(),
                                   [&](Real difference) { return difference - expected > limit; });
  return p_of_samples(static_cast<std::size_t>(above), differences.size());
}

}  // namespace

Result<ScoreDifference> compare(const Resamples& system, const Resamples& baseline) {
  if (system.metric != baseline.metric) return Error{fmt::format("{} and {}", system.metric, baseline.metric)};
  if (system.references != baseline.references) return Error{"other validation set"};
  if (system.signature != baseline.signature) {
    return Error{fmt::format("other signature, {} and {}", system.signature, baseline.signature)};
  }
  if (system.scores.size() != baseline.scores.size() || system.scores.empty()) {
    return Error{fmt::format("{} and {} resamples", system.scores.size(), baseline.scores.size())};
  }
  if (system.statistics == baseline.statistics) return ScoreDifference{.difference = 0, .p_value = p_of_equals};
  const double difference = system.score - baseline.score;
  if (difference == 0) return ScoreDifference();
  return ScoreDifference{.difference = difference,
                         .p_value = paired_p_value(system.scores, baseline.scores, std::abs(difference))};
}

std::string difference_text(const ScoreDifference& compared, const std::string& metric, const std::string& than) {
  const auto [difference, p] = compared;
  if (p == p_of_equals) return fmt::format("equal to {} in {}", than, metric);
  if (difference == 0) return fmt::format("as good as {} in {}", than, metric);
  constexpr double shown_by_two_digits = 0.01;
  const std::string chance = std::isnan(p) ? "" : fmt::format(" (p = {:.{}f})", p, p < shown_by_two_digits ? 3 : 2);
  return fmt::format("{:.2f} {} {} than {}{}", std::abs(difference), metric, difference < 0 ? "worse" : "better", than,
                     chance);
}

ConfidenceInterval interval_of(const std::vector<double>& scores) {
  return single_precision(scores) ? interval_in<float>(scores) : interval_in<double>(scores);
}

double paired_p_value(const std::vector<double>& system, const std::vector<double>& baseline, double observed) {
  if (system.size() != baseline.size()) {
    fail("bootstrap: {} samples and {}, expected equal numbers", baseline.size(), system.size());
  }
  return single_precision(system) && single_precision(baseline) ? bootstrap_p<float>(system, baseline, observed)
                                                                : bootstrap_p<double>(system, baseline, observed);
}

double p_of_samples(std::size_t above, std::size_t samples) {
  return static_cast<double>(above + 1) / static_cast<double>(samples + 1);
}

}  // namespace babelring
