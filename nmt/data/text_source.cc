#include "nmt/data/text_source.h"

#include "nmt/data/batch.h"

namespace babelring {

namespace {

std::vector<BatchSlice> slices_of(const Corpus& corpus, const UpdatePlan& update, const RankPart& part,
                                  std::int64_t number) {
  if (part.shares != nullptr) {
    const auto bounds = part.shares->bounds(number);
    return slice(corpus, update, part.rank, *bounds,
                 micro_batches_for(corpus, update, *bounds, part.micro_batch_tokens));
  }
  const bool by_units = part.units > 0;
  const int parts = by_units ? part.units : part.world;
  const int micro_batches = micro_batches_for(corpus, update, parts, part.micro_batch_tokens);
  if (!by_units) return slice(corpus, update, part.rank, part.world, micro_batches);
  const UnitRange units = units_of(part);
  return slice_range(corpus, update, units.first * micro_batches, (units.first + units.count) * micro_batches,
                     parts * micro_batches);
}

}  // namespace

UpdateBatches TextSource::make(std::int64_t update, const DataPosition& start, const RankPart& part) const {
  const Corpus& corpus = plan_.corpus();
  const UpdatePlan planned = plan_(start);
  UpdateBatches batches;
  batches.update = update;
  batches.next = planned.next;
  batches.epoch = planned.epochs_done;
  batches.global_sentences = static_cast<std::int64_t>(planned.sentences.size());
  batches.global_source_tokens = planned.source_tokens;
  batches.global_target_tokens = planned.target_tokens;
  batches.units = units_of(part);
  for (const BatchSlice& slice_of_rank : slices_of(corpus, planned, part, update)) {
    batches.sentences += slice_of_rank.last - slice_of_rank.first;
    batches.source_tokens += slice_of_rank.source_tokens;
    batches.target_tokens += slice_of_rank.target_tokens;
    batches.micro_batches.push_back(make_batch(corpus, planned, slice_of_rank));
  }
  return batches;
}

DataPosition TextSource::resume(DataOrder order, const std::optional<DataPosition>& position, double epochs) {
  plan_.set_order(order);
  // If changed data was accepted, it may have fewer sentences than the position needs.
  if (position && position->sentences < plan_.sentences()) return *position;
  return plan_.position_at(epochs);
}

UpdateShape TextSource::shape() const {
  const auto target = static_cast<double>(tokens_per_update_);
  const double source_per_target =
      static_cast<double>(plan_.source_tokens()) / static_cast<double>(plan_.target_tokens());
  return {.max_length = max_length_, .source_tokens = target * source_per_target, .target_tokens = target};
}

}  // namespace babelring
