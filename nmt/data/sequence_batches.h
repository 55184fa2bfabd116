#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "nmt/data/update_source.h"

namespace babelring {

/// An update of sequences of one length, over all ranks. A language model predicts every token of a sequence but the
/// first, so `length` tokens give length - 1 targets.
struct SequenceUpdate {
  std::int64_t update = 0;
  std::int64_t sequences = 0;
  std::int64_t length = 0;  // tokens of a sequence, at least 2
};

/// Sequences [first, last) of an update.
struct SequenceRange {
  std::int64_t first = 0, last = 0;

  std::int64_t count() const { return last - first; }
};

/// Part `part` of `parts` contiguous parts of `range`, whose sizes differ by at most one.
SequenceRange part_of_range(const SequenceRange& range, std::int64_t part, std::int64_t parts);

/// Writes a sequence: all elements of `tokens`.
using ReadSequence = std::function<void(std::int64_t sequence, std::span<std::int32_t> tokens)>;

/// Packs sequences for a language model: target_in has all tokens but the last, target_out all but the first, the
/// sources are empty. first_target_row counts the targets of the sequences before range.first.
PackedBatch pack_sequences(const SequenceRange& range, std::int64_t length, const ReadSequence& read);

/// This rank's part of an update: a contiguous range of its sequences, in micro-batches of at most
/// part.micro_batch_tokens targets or of a single sequence. Calls `read` once for each sequence of the rank, in order.
/// The caller sets `next`, `epoch` and `entropy`.
UpdateBatches make_sequence_batches(const SequenceUpdate& update, const RankPart& part, const ReadSequence& read);

/// Throws UsageFailure unless a sequence has at least 2 tokens and an update at least 1 sequence.
void check_sequence_sizes(std::int64_t sequences_per_update, std::int64_t length);

}  // namespace babelring
