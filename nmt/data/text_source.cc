#include "nmt/data/text_source.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

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

PlanOptions shortened(PlanOptions options, double growth) {
  options.tokens_per_update =
      std::max<std::int64_t>(1, std::llround(static_cast<double>(options.tokens_per_update) / growth));
  return options;
}

/// The batches of a planned update of `corpus`.
UpdateBatches make_batches(const Corpus& corpus, const UpdatePlan& planned, std::int64_t update, const RankPart& part) {
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
  }
  return batches;
}

}  // namespace

void drop_words(PackedBatch& batch, std::int64_t update, const PlanOptions& options) {
  const auto key = [&](std::uint64_t side) {
    return derive_seed(options.seed, static_cast<std::uint64_t>(update), 1, side);
  };
  drop_words_of(batch.source, batch.first_source_row, key(0), options.source_word_dropout, 0, 1);
  drop_words_of(batch.target_in, batch.first_target_row, key(1), options.target_word_dropout, 1, 0);
}

TextSource::TextSource(const Corpus& corpus, const PlanOptions& options, const PlanMemory& memory,
                       std::optional<SegmentSampler> sampler)
    : sampler_(std::move(sampler)),
      growth_(sampler_ ? sampler_->growth(corpus) : SegmentSampler::Growth()),
      plan_(corpus, shortened(options, growth_.target), memory),
      options_(options) {
  if (!options.mix.empty()) mix_.emplace(corpus, shortened(options, growth_.target), memory);
}

UpdateBatches TextSource::make(std::int64_t update, const DataPosition& start, const RankPart& part) const {
  UpdateBatches batches = make_undropped(update, start, part);
  for (PackedBatch& batch : batches.micro_batches) drop_words(batch, update, options_);
  batches.corpora = plan_.corpus().parts().size();
  return batches;
}

UpdateBatches TextSource::make_undropped(std::int64_t update, const DataPosition& start, const RankPart& part) const {
  UpdatePlan planned = mix_ ? (*mix_)(start) : plan_(start);
  if (const Corpus& corpus = plan_.corpus(); !corpus.parts().empty()) {
    for (const std::int64_t sentence : planned.sentences) planned.corpora.push_back(corpus.part_of(sentence));
  }
  std::vector<PlannedPair> pairs;
  for (std::size_t i = 0; options_.names_pairs && i < planned.sentences.size(); ++i) {
    pairs.push_back({planned.sentences[i], planned.epochs.empty() ? start.epoch : planned.epochs[i]});
  }
  UpdateBatches batches = make_batches_of(std::move(planned), start.epoch, update, part);
  batches.pairs = std::move(pairs);
  return batches;
}

/// The batches of a planned update, segmented anew if a sampler draws.
UpdateBatches TextSource::make_batches_of(UpdatePlan planned, std::int64_t epoch, std::int64_t update,
                                          const RankPart& part) const {
  if (!sampler_) return make_batches(plan_.corpus(), planned, update, part);
  const Corpus drawn = sampler_->draw(plan_.corpus(), epoch, planned.sentences, planned.epochs);
  std::iota(planned.sentences.begin(), planned.sentences.end(), 0);
  planned.source_tokens = drawn.source_tokens() + drawn.sentences();
  planned.target_tokens = drawn.target_tokens() + drawn.sentences();
  return make_batches(drawn, planned, update, part);
}

DataPosition TextSource::resume(DataOrder order, const std::optional<DataPosition>& position, double epochs) {
  if (mix_) return position && mix_->has(*position) ? *position : mix_->position_at(epochs);
  plan_.set_order(order);
  // If changed data was accepted, it may have fewer sentences than the position needs.
  if (position && position->corpora.empty() && position->sentences < plan_.sentences()) return *position;
  return plan_.position_at(epochs);
}

std::vector<std::string> TextSource::corpora() const {
  std::vector<std::string> names;
  for (const CorpusPart& part : plan_.corpus().parts()) names.push_back(part.name);
  return names;
}

UpdateShape TextSource::shape() const {
  const auto target = static_cast<double>(options_.tokens_per_update);
  const double of_corpus =
      mix_ ? mix_->source_per_target()
           : static_cast<double>(plan_.source_tokens()) / static_cast<double>(plan_.target_tokens());
  const double source_per_target = of_corpus * growth_.source / growth_.target;
  return {.max_length = options_.max_length, .source_tokens = target * source_per_target, .target_tokens = target};
}

}  // namespace babelring
