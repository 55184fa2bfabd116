#pragma once

#include <optional>

#include "nmt/data/batch_plan.h"
#include "nmt/data/mixed_plan.h"
#include "nmt/data/segment_sampler.h"
#include "nmt/data/update_source.h"

namespace babelring {

/// Updates of the sentence pairs of a corpus, in the order of a BatchPlan, or of a MixedPlan if the options have a mix.
class TextSource : public UpdateSource {
 public:
  /// The corpus must outlive the source. Throws UsageFailure if an option is out of range, Failure if no sentence is
  /// kept. The plan lies in memory from `memory`, if it has any. With a `sampler`, each sentence is
  /// segmented anew in each epoch, and updates have tokens_per_update of these tokens on average. Each rank draws the
  /// whole update.
  TextSource(const Corpus& corpus, const PlanOptions& options, const PlanMemory& memory = {},
             std::optional<SegmentSampler> sampler = {});

  UpdateBatches make(std::int64_t update, const DataPosition& start, const RankPart& part) const override;
  DataPosition after(const DataPosition& start) const override {
    return mix_ ? (*mix_)(start).next : plan_.after(start);
  }
  DataPosition resume(DataOrder order, const std::optional<DataPosition>& position, double epochs) override;
  std::int64_t updates_per_epoch() const override { return plan_.updates_per_epoch(); }
  UpdateShape shape() const override;
  std::vector<std::string> corpora() const override;
  const std::string& digest() const override { return plan_.corpus().digest(); }

  /// The plan of all sentences, as it would be without a mix.
  const BatchPlan& plan() const { return plan_; }
  /// Null without a mix.
  const MixedPlan* mix() const { return mix_ ? &*mix_ : nullptr; }
  /// Tokens of an update per token of the corpus.
  const SegmentSampler::Growth& growth() const { return growth_; }

 private:
  /// make() without drop_words().
  UpdateBatches make_undropped(std::int64_t update, const DataPosition& start, const RankPart& part) const;

  UpdateBatches make_batches_of(UpdatePlan planned, std::int64_t epoch, std::int64_t update,
                                const RankPart& part) const;

  std::optional<SegmentSampler> sampler_;
  SegmentSampler::Growth growth_;
  BatchPlan plan_;
  std::optional<MixedPlan> mix_;
  PlanOptions options_;
};

/// Replaces tokens of a batch of update `update` by <unk>, each with the probability that the options have for its
/// side, but neither the source's </s> nor the decoder's <s>. A pure function of seed, update and the token's row in
/// the update, so that ranks and micro-batches change nothing. Source: Bowman et al. 2016, "Generating Sentences from a
/// Continuous Space", 3.1 (of the decoder).
void drop_words(PackedBatch& batch, std::int64_t update, const PlanOptions& options);

}  // namespace babelring
