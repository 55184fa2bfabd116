#include "nmt/metrics/metric.h"

#include <algorithm>
#include <utility>

#include "base/failure.h"

namespace babelring {
namespace {

class BleuMetric : public Metric {
 public:
  explicit BleuMetric(const BleuOptions& options)
      : bleu_(options), sentence_bleu_([&options] {
          BleuOptions effective = options;
          effective.effective_order = true;
          return effective;
        }()) {}

  std::string name() const override { return "BLEU"; }
  std::vector<double> statistics(std::string_view hypothesis,
                                 const std::vector<std::string>& references) const override {
    return bleu_.count(hypothesis, references).row();
  }
  double score(std::span<const double> sums) const override { return bleu_.score(BleuCounts::of_row(sums)).score; }
  double score(std::span<const float> sums) const override { return bleu_.score(sums); }
  double sentence_score(std::span<const double> statistics) const override {
    return sentence_bleu_.score(BleuCounts::of_row(statistics)).score;
  }
  std::string details(std::span<const double> sums) const override {
    return bleu_.score(BleuCounts::of_row(sums)).details();
  }
  std::string signature(std::size_t references) const override { return bleu_.signature(references); }

 private:
  Bleu bleu_, sentence_bleu_;  // the second with effective order
};

class ChrfMetric : public Metric {
 public:
  explicit ChrfMetric(const ChrfOptions& options) : chrf_(options) {}

  std::string name() const override { return chrf_.name(); }
  std::vector<double> statistics(std::string_view hypothesis,
                                 const std::vector<std::string>& references) const override {
    return chrf_.count(hypothesis, references).row();
  }
  double score(std::span<const double> sums) const override { return chrf_.score(sums); }
  double score(std::span<const float> sums) const override { return chrf_.score(sums); }
  std::string signature(std::size_t references) const override { return chrf_.signature(references); }

 private:
  Chrf chrf_;
};

class TerMetric : public Metric {
 public:
  explicit TerMetric(const TerOptions& options) : ter_(options) {}

  std::string name() const override { return "TER"; }
  bool less_is_better() const override { return true; }
  std::vector<double> statistics(std::string_view hypothesis,
                                 const std::vector<std::string>& references) const override {
    const TerCounts counts = ter_.count(hypothesis, references);
    return {static_cast<double>(counts.edits), counts.reference_words};
  }
  double score(std::span<const double> sums) const override { return Ter::score(sums[0], sums[1]); }
  double score(std::span<const float> sums) const override { return Ter::score(sums[0], sums[1]); }
  std::string signature(std::size_t references) const override { return ter_.signature(references); }

 private:
  Ter ter_;
};

}  // namespace

const Choices<MetricKind>& metrics() {
  static const Choices<MetricKind> words = {{"bleu", MetricKind::bleu},
                                            {"chrf", MetricKind::chrf},
                                            {"chrf++", MetricKind::chrf_plus_plus},
                                            {"ter", MetricKind::ter}};
  return words;
}

std::unique_ptr<Metric> make_metric(MetricKind kind, const MetricOptions& options) {
  if (kind == MetricKind::bleu) return std::make_unique<BleuMetric>(options.bleu);
  if (kind == MetricKind::ter) return std::make_unique<TerMetric>(options.ter);
  ChrfOptions chrf = options.chrf;
  if (kind == MetricKind::chrf_plus_plus) chrf.word_order = 2;
  return std::make_unique<ChrfMetric>(chrf);
}

SentenceStatistics::SentenceStatistics(const Metric& metric, const std::vector<std::string>& hypotheses,
                                       const std::vector<std::vector<std::string>>& references)
    : metric_(&metric) {
  if (references.empty()) fail("{}: no references", metric.name());
  for (const auto& set : references) {
    if (set.size() == hypotheses.size()) continue;
    fail("{}: {} hypotheses, {} references; expected equal numbers", metric.name(), hypotheses.size(), set.size());
  }
  std::vector<std::string> given(references.size());
  for (std::size_t i = 0; i < hypotheses.size(); ++i) {
    for (std::size_t k = 0; k < references.size(); ++k) given[k] = references[k][i];
    const std::vector<double> row = metric.statistics(hypotheses[i], given);
    width_ = row.size();
    values_.insert(values_.end(), row.begin(), row.end());
  }
}

std::vector<double> SentenceStatistics::sums() const {
  std::vector<double> sums(width_);
  for (std::size_t i = 0; i < values_.size(); ++i) sums[i % width_] += values_[i];
  return sums;
}

}  // namespace babelring
