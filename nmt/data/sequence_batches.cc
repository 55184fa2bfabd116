#include "nmt/data/sequence_batches.h"

#include <algorithm>
#include <cmath>

#include "base/failure.h"
#include "nmt/data/unit_assignment.h"

namespace babelring {

SequenceRange part_of_range(const SequenceRange& range, std::int64_t part, std::int64_t parts) {
  return {range.first + range.count() * part / parts, range.first + range.count() * (part + 1) / parts};
}

PackedBatch pack_sequences(const SequenceRange& range, std::int64_t length, const ReadSequence& read) {
  const std::int64_t targets = length - 1;
  PackedBatch batch;
  batch.first_target_row = range.first * targets;
  batch.target_in.ids.reserve(static_cast<std::size_t>(range.count() * targets));
  batch.target_out.reserve(static_cast<std::size_t>(range.count() * targets));
  std::vector<std::int32_t> tokens(static_cast<std::size_t>(length));
  for (std::int64_t sequence = range.first; sequence < range.last; ++sequence) {
    read(sequence, tokens);
    batch.target_in.ids.insert(batch.target_in.ids.end(), tokens.begin(), tokens.end() - 1);
    batch.target_out.insert(batch.target_out.end(), tokens.begin() + 1, tokens.end());
    batch.source.offsets.push_back(0);
    batch.target_in.offsets.push_back(static_cast<std::int32_t>(batch.target_in.tokens()));
  }
  return batch;
}

namespace {

/// The parts into which an update's sequences are divided: units, or a part for each rank.
std::vector<SequenceRange> parts_of(const SequenceUpdate& update, const RankPart& part) {
  std::vector<SequenceRange> ranges;
  if (part.shares == nullptr || part.units > 0) {
    const std::int64_t parts = part.units > 0 ? part.units : part.world;
    for (std::int64_t i = 0; i < parts; ++i) ranges.push_back(part_of_range({0, update.sequences}, i, parts));
    return ranges;
  }
  const auto bounds = part.shares->bounds(update.update);
  const auto begin = [&](std::size_t rank) {
    return std::llround((*bounds)[rank] * static_cast<double>(update.sequences));
  };
  for (std::size_t rank = 0; rank + 1 < bounds->size(); ++rank) ranges.push_back({begin(rank), begin(rank + 1)});
  return ranges;
}

}  // namespace

UpdateBatches make_sequence_batches(const SequenceUpdate& update, const RankPart& part, const ReadSequence& read) {
  const std::int64_t targets = update.length - 1;
  const std::vector<SequenceRange> parts = parts_of(update, part);
  UpdateBatches batches{.update = update.update,
                        .epoch = 0,
                        .global_sentences = update.sequences,
                        .global_target_tokens = update.sequences * targets};
  assign_units(batches, part);
  const std::int64_t largest_share = std::ranges::max(parts, {}, &SequenceRange::count).count();
  const std::int64_t fitting = part.micro_batch_tokens > 0
                                   ? std::max<std::int64_t>(1, part.micro_batch_tokens / targets)
                                   : std::max<std::int64_t>(1, largest_share);
  const std::int64_t micro_batches = std::max<std::int64_t>(1, (largest_share + fitting - 1) / fitting);
  for (const int computed : part.units > 0 ? batches.computed : std::vector<int>{part.rank}) {
    const SequenceRange& own = parts[static_cast<std::size_t>(computed)];
    batches.sentences += own.count();
    for (std::int64_t i = 0; i < micro_batches; ++i) {
      batches.micro_batches.push_back(pack_sequences(part_of_range(own, i, micro_batches), update.length, read));
    }
  }
  batches.target_tokens = batches.sentences * targets;
  return batches;
}

void check_sequence_sizes(std::int64_t sequences_per_update, std::int64_t length) {
  if (sequences_per_update >= 1 && length >= 2) return;
  throw UsageFailure(fmt::format("sequences: {} an update of {} tokens, expected at least 1 of at least 2",
                                 sequences_per_update, length));
}

}  // namespace babelring
