#pragma once

#include "nmt/data/batch_plan.h"
#include "nmt/data/update_source.h"

namespace babelring {

/// Updates of the sentence pairs of a corpus, in the order of a BatchPlan.
class TextSource : public UpdateSource {
 public:
  /// The corpus must outlive the source. Throws UsageFailure if an option is out of range, Failure if no sentence is
  /// kept. The plan lies in memory from `memory`, if it has any.
  TextSource(const Corpus& corpus, const PlanOptions& options, const PlanMemory& memory = {})
      : plan_(corpus, options, memory),
        max_length_(options.max_length),
        tokens_per_update_(options.tokens_per_update),
        options_(options) {}

  UpdateBatches make(std::int64_t update, const DataPosition& start, const RankPart& part) const override;
  DataPosition after(const DataPosition& start) const override { return plan_.after(start); }
  DataPosition resume(DataOrder order, const std::optional<DataPosition>& position, double epochs) override;
  std::int64_t updates_per_epoch() const override { return plan_.updates_per_epoch(); }
  UpdateShape shape() const override;
  const std::string& digest() const override { return plan_.corpus().digest(); }

  const BatchPlan& plan() const { return plan_; }

 private:
  BatchPlan plan_;
  std::int64_t max_length_, tokens_per_update_;
  PlanOptions options_;
};

/// Replaces tokens of a batch of update `update` by <unk>, each with the probability that the options have for its
/// side, but neither the source's </s> nor the decoder's <s>. A pure function of seed, update and the token's row in
/// the update, so that ranks and micro-batches change nothing. Source: Bowman et al. 2016, "Generating Sentences from a
/// Continuous Space", 3.1 (of the decoder).
void drop_words(PackedBatch& batch, std::int64_t update, const PlanOptions& options);

}  // namespace babelring
