#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "nmt/data/batch_plan.h"

namespace babelring {

/// Throws UsageFailure unless the set has corpora with names, and the mix names only these.
void check_mix(const MixOptions& mix, const std::vector<CorpusPart>& parts, const std::string& folder);

/// Assigns sentences of several corpora to updates, by their weights. The update at a position is a pure function of
/// (corpus, options, position), so a run resumes from its position alone.
///
/// Weights are parts of the sentences, as the sampling probabilities of Arivazhagan et al. 2019, "Massively
/// Multilingual Neural Machine Translation in the Wild", 4.2, of fairseq and of OpusTrainer. Nothing is drawn at
/// random: after any number of sentences in a stage, a corpus has given its part to within one sentence (smooth
/// weighted round-robin: each corpus is credited its weight, and the one with the most credit gives the next sentence
/// and pays the sum of all). Each corpus has its own epochs, each in another order (EpochOrders), so that a
/// sentence comes back only after all others of its corpus.
///
/// An update takes sentences until the middle of the next one lies behind tokens_per_update, at least one. The order of
/// the sentences does not depend on tokens_per_update, but for the ends of stages, which come with whole updates. An
/// epoch of the run has as many target tokens as all corpora together.
///
/// Thread-safe. The corpus must outlive the plan.
class MixedPlan {
 public:
  /// The corpus needs parts, and options.mix at least a stage or a temperature. Throws like EpochOrders, UsageFailure
  /// if a stage names a corpus of which no sentence is kept.
  MixedPlan(const Corpus& corpus, const PlanOptions& options, const PlanMemory& memory = {});

  /// The update that starts at `start`; DataPosition() is the beginning. Throws Failure if there is no such position.
  UpdatePlan operator()(const DataPosition& start) const;
  bool has(const DataPosition& position) const;
  /// A position at which all corpora begin, in a run that has done `epochs` epochs.
  DataPosition position_at(double epochs) const;

  /// Source tokens for each target token, with </s>; the largest of all stages.
  double source_per_target() const;
  /// The stages for the log, such as "clean 30 %, crawl 70 % until 50 updates; clean 100 %".
  std::string text() const;

 private:
  /// Weights in 2^-20 of their sum, so that no rounding differs between processors.
  struct Stage {
    std::vector<std::int64_t> weights;  // of each corpus; 0: gives nothing
    MixEnd end;
  };
  class Reader;
  void add_stage(const MixStage& stage);
  std::vector<double> weights_by_size() const;
  const Stage& stage_at(const DataPosition& start) const;
  double epochs(std::int64_t target_tokens) const;

  const Corpus& corpus_;
  PlanOptions options_;
  std::vector<std::unique_ptr<EpochOrders>> orders_;  // of each corpus
  std::vector<Stage> stages_;
  std::int64_t target_tokens_ = 0;  // of an epoch of the run
  std::int64_t updates_per_epoch_ = 1;
};

}  // namespace babelring
