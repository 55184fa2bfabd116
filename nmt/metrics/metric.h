#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/choices.h"
#include "nmt/metrics/bleu.h"
#include "nmt/metrics/chrf.h"
#include "nmt/metrics/ter.h"

namespace babelring {

enum class MetricKind { bleu, chrf, chrf_plus_plus, ter };

/// "bleu", "chrf", "chrf++", "ter".
const Choices<MetricKind>& metrics();

struct MetricOptions {
  BleuOptions bleu;
  ChrfOptions chrf;
  TerOptions ter;
};

/// A metric whose score is a function of statistics that are summed over sentences.
class Metric {
 public:
  virtual ~Metric() = default;

  /// "BLEU", "chrF2++", "TER".
  virtual std::string name() const = 0;
  virtual bool less_is_better() const { return false; }
  /// Statistics of one sentence against its references. All sentences have the same number of them.
  virtual std::vector<double> statistics(std::string_view hypothesis,
                                         const std::vector<std::string>& references) const = 0;
  /// Score of summed statistics. From single-precision sums it is computed with their precision, as by sacreBLEU for
  /// resamples.
  virtual double score(std::span<const double> sums) const = 0;
  virtual double score(std::span<const float> sums) const = 0;
  /// Score of the statistics of one sentence.
  virtual double sentence_score(std::span<const double> statistics) const { return score(statistics); }
  /// The text after the score in a printed line, such as BLEU's precisions; otherwise "".
  virtual std::string details(std::span<const double> /*sums*/) const { return ""; }
  /// As sacreBLEU's, but for the version.
  virtual std::string signature(std::size_t references) const = 0;
};

/// `options`: those of this kind are used; `chrf_plus_plus` has word order 2. Throws UsageFailure if the tokeniser of
/// BLEU is not available.
std::unique_ptr<Metric> make_metric(MetricKind kind, const MetricOptions& options);

/// The statistics of all sentences of a system by one metric, which must outlive the object. A score, its interval and
/// its comparisons are computed from them without the texts.
class SentenceStatistics {
 public:
  /// `references[k]` is the k-th reference set. Throws Failure if a set has a different number of lines.
  SentenceStatistics(const Metric& metric, const std::vector<std::string>& hypotheses,
                     const std::vector<std::vector<std::string>>& references);

  const Metric& metric() const { return *metric_; }
  std::size_t sentences() const { return width_ == 0 ? 0 : values_.size() / width_; }
  std::size_t width() const { return width_; }
  /// The statistics of sentence i, `width()` numbers.
  std::span<const double> sentence(std::size_t i) const { return {values_.data() + i * width_, width_}; }
  /// All of them, sentence by sentence.
  const std::vector<double>& values() const { return values_; }
  std::vector<double> sums() const;
  double score() const { return metric_->score(std::span<const double>(sums())); }

  /// True if each sentence has the same statistics, so that no test can tell the systems apart.
  bool equals(const SentenceStatistics& other) const { return values_ == other.values_; }

 private:
  const Metric* metric_;
  std::size_t width_ = 0;
  std::vector<double> values_;
};

}  // namespace babelring
