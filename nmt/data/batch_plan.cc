#include "nmt/data/batch_plan.h"

#include <algorithm>
#include <cmath>

#include "base/failure.h"
#include "nmt/data/vocabulary.h"

namespace babelring {
namespace {

/// Divides a sequence of `total` tokens into `parts` equal parts and returns the part that contains the middle of an
/// element of `tokens` tokens that follows `before` tokens. Non-decreasing along the sequence. No part is empty if none
/// is shorter than the longest element.
constexpr std::int64_t part_of(std::int64_t before, std::int64_t tokens, std::int64_t parts, std::int64_t total) {
  return std::min(parts - 1, (2 * before + tokens) * parts / (2 * total));
}

}  // namespace

void BatchPlan::check(const DataPosition& start) const {
  if (start.epoch < 0 || start.sentences < 0 || start.sentences >= sentences()) {
    fail("plan: epoch {}, {} sentences done; expected an epoch from 0 and fewer than {} sentences", start.epoch,
         start.sentences, sentences());
  }
}

std::int64_t BatchPlan::end_of_update(const EpochOrders::Epoch& epoch, std::int64_t first) const {
  const auto cut = std::upper_bound(epoch.cuts.begin(), epoch.cuts.end(), first);
  if (*(cut - 1) == first || cut + 1 == epoch.cuts.end()) return *cut;
  std::int64_t tokens = 0;
  for (std::int64_t i = first; i < *cut; ++i) {
    tokens += target_cost(corpus_, epoch.sentences[static_cast<std::size_t>(i)]);
  }
  return 4 * tokens * updates_per_epoch() < target_tokens() ? *(cut + 1) : *cut;
}

/// The position behind sentence `end` - 1 of an epoch.
DataPosition BatchPlan::position(std::int64_t epoch, std::int64_t end) const {
  return end < sentences() ? DataPosition{epoch, end} : DataPosition{epoch + 1, 0};
}

DataPosition BatchPlan::after(const DataPosition& start) const {
  check(start);
  return orders_.with_epoch(start.epoch, start.sentences, [&](const EpochOrders::Epoch& epoch) {
    return position(start.epoch, end_of_update(epoch, start.sentences));
  });
}

UpdatePlan BatchPlan::operator()(const DataPosition& start) const {
  check(start);
  UpdatePlan plan = orders_.with_epoch(start.epoch, start.sentences, [&](const EpochOrders::Epoch& epoch) {
    const std::int64_t end = end_of_update(epoch, start.sentences);
    const auto cut = std::lower_bound(epoch.cuts.begin(), epoch.cuts.end(), end) - epoch.cuts.begin();
    const double part =
        static_cast<double>(epoch.targets[static_cast<std::size_t>(cut)]) / static_cast<double>(target_tokens());
    return UpdatePlan{.sentences = {epoch.sentences.begin() + start.sentences, epoch.sentences.begin() + end},
                      .next = position(start.epoch, end),
                      .epochs_done = static_cast<double>(start.epoch) + part};
  });
  for (const std::int64_t sentence : plan.sentences) {
    plan.source_tokens += source_cost(corpus_, sentence);
    plan.target_tokens += target_cost(corpus_, sentence);
  }
  return plan;
}

DataPosition BatchPlan::position_at(double epochs) const {
  const double tolerance =
      1e-6;  // in updates; absorbs rounding when `epochs` was computed as updates / updates_per_epoch()
  const std::int64_t updates = updates_per_epoch();
  const auto number = static_cast<std::int64_t>(epochs + tolerance / static_cast<double>(updates));
  const double part = epochs - static_cast<double>(number);
  const auto update = static_cast<std::int64_t>(std::ceil(part * static_cast<double>(updates) - tolerance));
  if (update >= updates) return {number + 1, 0};
  if (update <= 0) return {number, 0};
  return {number, orders_.begin_of(number, update)};
}

namespace {

/// Cuts an update into `parts` parts and returns the parts for which takes(part) is true. part_at(before, tokens) is
/// the part of a sentence of `tokens` tokens that follows `before` tokens.
template <class PartAt, class Takes>
std::vector<BatchSlice> take_parts(const Corpus& corpus, const UpdatePlan& update, std::int64_t parts,
                                   const PartAt& part_at, const Takes& takes) {
  std::vector<BatchSlice> slices;
  BatchSlice part;
  std::int64_t position = 0;
  const auto count = static_cast<std::int64_t>(update.sentences.size());
  for (std::int64_t p = 0; p < parts; ++p) {
    part = {position, position, part.first_source_row + part.source_tokens, part.first_target_row + part.target_tokens,
            0,        0};
    for (; position < count; ++position) {
      const std::int64_t sentence = update.sentences[static_cast<std::size_t>(position)];
      const std::int64_t source = source_cost(corpus, sentence);
      const std::int64_t target = target_cost(corpus, sentence);
      const std::int64_t before =
          part.first_source_row + part.source_tokens + part.first_target_row + part.target_tokens;
      if (part_at(before, source + target) > p) break;
      part.source_tokens += source;
      part.target_tokens += target;
    }
    part.last = position;
    if (takes(p)) slices.push_back(part);
  }
  return slices;
}

template <class Takes>
std::vector<BatchSlice> take_equal_parts(const Corpus& corpus, const UpdatePlan& update, std::int64_t parts,
                                         const Takes& takes) {
  const std::int64_t total = update.source_tokens + update.target_tokens;
  return take_parts(
      corpus, update, parts,
      [=](std::int64_t before, std::int64_t tokens) { return part_of(before, tokens, parts, total); }, takes);
}

/// Parts by `bounds` of each micro-batch over all ranks.
template <class Takes>
std::vector<BatchSlice> take_bounded_parts(const Corpus& corpus, const UpdatePlan& update,
                                           const std::vector<double>& bounds, int micro_batches, const Takes& takes) {
  const auto world = std::ssize(bounds) - 1;
  const auto total = static_cast<double>(update.source_tokens + update.target_tokens);
  const auto part_at = [&](std::int64_t before, std::int64_t tokens) {
    const double middle = static_cast<double>(2 * before + tokens) / (2 * total) * micro_batches;
    const auto micro_batch = std::min<std::int64_t>(micro_batches - 1, static_cast<std::int64_t>(middle));
    const auto after =
        std::upper_bound(bounds.begin() + 1, bounds.end() - 1, middle - static_cast<double>(micro_batch));
    return micro_batch * world + (after - bounds.begin() - 1);
  };
  return take_parts(corpus, update, world * micro_batches, part_at, takes);
}

/// The min number of micro-batches whose parts, parts_of(number), do not exceed `limit`.
template <class PartsOf>
int min_micro_batches(const UpdatePlan& update, std::int64_t world, std::int64_t limit, const PartsOf& parts_of) {
  if (limit < 1) return 1;
  const std::int64_t larger = std::max(update.source_tokens, update.target_tokens);
  // Terminates: once there are as many parts as tokens, each holds at most one sentence.
  for (auto count = static_cast<int>(std::max<std::int64_t>(1, larger / (limit * world)));; ++count) {
    const std::vector<BatchSlice> parts = parts_of(count);
    const bool fits = std::all_of(parts.begin(), parts.end(), [&](const BatchSlice& part) {
      return part.last - part.first <= 1 || std::max(part.source_tokens, part.target_tokens) <= limit;
    });
    if (fits) return count;
  }
}

constexpr auto every_part = [](std::int64_t) { return true; };

}  // namespace

std::vector<BatchSlice> slice(const Corpus& corpus, const UpdatePlan& update, int rank, int world, int micro_batches) {
  if (rank < 0 || rank >= world || micro_batches < 1) {
    fail("slice: rank {} of {}, {} micro-batches; expected a rank below the world size and at least 1 micro-batch",
         rank, world, micro_batches);
  }
  return take_equal_parts(corpus, update, std::int64_t{world} * micro_batches,
                          [&](std::int64_t part) { return part % world == rank; });
}

std::vector<BatchSlice> slice(const Corpus& corpus, const UpdatePlan& update, int rank,
                              const std::vector<double>& bounds, int micro_batches) {
  const auto world = std::ssize(bounds) - 1;
  return take_bounded_parts(corpus, update, bounds, micro_batches,
                            [&](std::int64_t part) { return part % world == rank; });
}

std::vector<BatchSlice> slice_range(const Corpus& corpus, const UpdatePlan& update, int first, int last, int parts) {
  if (first < 0 || first > last || last > parts) {
    fail("slice_range: parts {} to {} of {}; expected a range of the parts", first, last, parts);
  }
  return take_equal_parts(corpus, update, parts, [&](std::int64_t part) { return part >= first && part < last; });
}

int micro_batches_for(const Corpus& corpus, const UpdatePlan& update, int world, std::int64_t limit) {
  return min_micro_batches(update, world, limit, [&](int count) {
    return take_equal_parts(corpus, update, std::int64_t{count} * world, every_part);
  });
}

int micro_batches_for(const Corpus& corpus, const UpdatePlan& update, const std::vector<double>& bounds,
                      std::int64_t limit) {
  return min_micro_batches(update, std::ssize(bounds) - 1, limit,
                           [&](int count) { return take_bounded_parts(corpus, update, bounds, count, every_part); });
}

namespace {

void append(PackedSequences& sequences, std::span<const std::int32_t> ids) {
  sequences.ids.insert(sequences.ids.end(), ids.begin(), ids.end());
}

void end_sentence(PackedSequences& sequences) {
  sequences.offsets.push_back(static_cast<std::int32_t>(sequences.ids.size()));
}

void add_pair(PackedBatch& batch, std::span<const std::int32_t> source, std::span<const std::int32_t> target) {
  append(batch.source, source);
  batch.source.ids.push_back(eos_id);
  end_sentence(batch.source);
  batch.target_in.ids.push_back(bos_id);
  append(batch.target_in, target);
  end_sentence(batch.target_in);
  batch.target_out.insert(batch.target_out.end(), target.begin(), target.end());
  batch.target_out.push_back(eos_id);
}

/// Appends the links of a pair that add_pair() has added: one row for each target piece, and that of </s>.
void add_links(PackedBatch& batch, std::span<const std::int32_t> links) {
  PackedLinks& packed = batch.links;
  if (packed.offsets.empty()) packed.offsets.push_back(0);
  const auto& rows = batch.target_in.offsets;
  const std::int32_t count = rows.back() - rows[rows.size() - 2];
  std::size_t at = 0;
  for (std::int32_t row = 0; row < count; ++row) {
    for (; at < links.size() && links[at + 1] == row; at += 2) packed.sources.push_back(links[at]);
    packed.offsets.push_back(static_cast<std::int32_t>(packed.sources.size()));
  }
}

}  // namespace

PackedBatch make_batch(const Corpus& corpus, const UpdatePlan& update, const BatchSlice& slice) {
  PackedBatch batch;
  batch.first_source_row = slice.first_source_row;
  batch.first_target_row = slice.first_target_row;
  batch.first_sentence = slice.first;
  batch.source.ids.reserve(static_cast<std::size_t>(slice.source_tokens));
  batch.target_in.ids.reserve(static_cast<std::size_t>(slice.target_tokens));
  batch.target_out.reserve(static_cast<std::size_t>(slice.target_tokens));
  for (std::int64_t i = slice.first; i < slice.last; ++i) {
    const std::int64_t sentence = update.sentences[static_cast<std::size_t>(i)];
    add_pair(batch, corpus.source(sentence), corpus.target(sentence));
    if (corpus.has_links()) add_links(batch, corpus.links(sentence));
    if (!update.corpora.empty()) batch.corpora.push_back(update.corpora[static_cast<std::size_t>(i)]);
  }
  return batch;
}

std::vector<PackedBatch> sequential_batches(const Corpus& corpus, std::int64_t first, std::int64_t last,
                                            std::int64_t tokens) {
  std::vector<PackedBatch> batches;
  std::int64_t source_rows = 0, target_rows = 0;
  for (std::int64_t i = first; i < last; ++i) {
    const bool full = batches.empty() || batches.back().source.tokens() + corpus.source_length(i) + 1 > tokens ||
                      batches.back().target_in.tokens() + corpus.target_length(i) + 1 > tokens;
    if (full) {
      batches.emplace_back();
      batches.back().first_source_row = source_rows;
      batches.back().first_target_row = target_rows;
    }
    add_pair(batches.back(), corpus.source(i), corpus.target(i));
    source_rows += corpus.source_length(i) + 1;
    target_rows += corpus.target_length(i) + 1;
  }
  return batches;
}

}  // namespace babelring
