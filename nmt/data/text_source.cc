#include "nmt/data/text_source.h"

#include "nmt/core/random.h"
#include "nmt/data/assignment.h"
#include "nmt/data/batch_plan.h"
#include "nmt/data/vocabulary.h"

namespace babelring {

namespace {

std::vector<BatchSlice> slices_of_units(const Corpus& corpus, const UpdatePlan& update, const RankPart& part,
                                        const std::vector<int>& units) {
  const int micro_batches = micro_batches_for(corpus, update, part.units, part.micro_batch_tokens);
  std::vector<BatchSlice> slices;
  for (const int unit : units) {
    const std::vector<BatchSlice> of_unit =
        slice_range(corpus, update, unit * micro_batches, (unit + 1) * micro_batches, part.units * micro_batches);
    slices.insert(slices.end(), of_unit.begin(), of_unit.end());
  }
  return slices;
}

std::vector<BatchSlice> slices_of(const Corpus& corpus, const UpdatePlan& update, const RankPart& part,
                                  const UpdateBatches& batches) {
  if (part.units > 0) return slices_of_units(corpus, update, part, batches.computed);
  if (part.assignment != nullptr) {
    const auto bounds = part.assignment->bounds(batches.update);
    return slice(corpus, update, part.rank, *bounds,
                 micro_batches_for(corpus, update, *bounds, part.micro_batch_tokens));
  }
  return slice(corpus, update, part.rank, part.world,
               micro_batches_for(corpus, update, part.world, part.micro_batch_tokens));
}

/// `begin` and `end`: how many tokens at both ends of a sentence stay.
void drop_words_of(PackedSequences& side, std::int64_t first_row, std::uint64_t key, double probability,
                   std::int32_t begin, std::int32_t end) {
  if (probability == 0) return;
  for (std::size_t sentence = 0; sentence + 1 < side.offsets.size(); ++sentence) {
    const std::int32_t last = side.offsets[sentence + 1] - end;
    for (std::int32_t i = side.offsets[sentence] + begin; i < last; ++i) {
      Random random(derive_seed(key, static_cast<std::uint64_t>(first_row + i)));
      if (random.uniform() < probability) side.ids[static_cast<std::size_t>(i)] = unk_id;
    }
  }
}

}  // namespace

void drop_words(PackedBatch& batch, std::int64_t update, const PlanOptions& options) {
  const auto key = [&](std::uint64_t side) {
    return derive_seed(options.seed, static_cast<std::uint64_t>(update), 1, side);
  };
  drop_words_of(batch.source, batch.first_source_row, key(0), options.source_word_dropout, 0, 1);
  drop_words_of(batch.target_in, batch.first_target_row, key(1), options.target_word_dropout, 1, 0);
}

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
  assign_units(batches, part);
  for (const BatchSlice& slice_of_rank : slices_of(corpus, planned, part, batches)) {
    batches.sentences += slice_of_rank.last - slice_of_rank.first;
    batches.source_tokens += slice_of_rank.source_tokens;
    batches.target_tokens += slice_of_rank.target_tokens;
    batches.micro_batches.push_back(make_batch(corpus, planned, slice_of_rank));
    drop_words(batches.micro_batches.back(), update, options_);
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
