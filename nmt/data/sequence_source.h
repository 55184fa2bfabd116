#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "nmt/data/corpus.h"
#include "nmt/data/manifest.h"
#include "nmt/data/update_source.h"

namespace babelring {

/// A set of held-out sequences of one length. Thread-safe.
class SequenceSet {
 public:
  virtual ~SequenceSet() = default;

  virtual const std::string& name() const = 0;
  virtual std::int64_t sequences() const = 0;
  /// Tokens of a sequence. The first is given, the others are targets.
  virtual std::int64_t length() const = 0;
  /// Writes sequence i to `tokens` [length].
  virtual void read(std::int64_t i, std::span<std::int32_t> tokens) const = 0;
  /// The source's entropy, as the sum of -log p over the targets of sequences [first, last), in nats; NaN if unknown.
  /// `threads` does not affect the result.
  virtual double entropy(std::int64_t first, std::int64_t last, int threads) const = 0;
};

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

/// The sequences of one set of a folder written by `nmt gssm data`, memory-mapped. All have the same length.
/// Thread-safe.
class SequenceFile {
 public:
  /// Throws Failure if the file does not match the manifest, UsageFailure if the set holds sentence pairs.
  SequenceFile(const Manifest& manifest, const std::string& set);

  const std::string& name() const { return name_; }
  const std::string& digest() const { return digest_; }
  std::int64_t sequences() const { return ids_.sentences(); }
  std::int64_t length() const { return length_; }
  /// Writes sequence i to `tokens` [length]. Throws Failure if it has another length.
  void read(std::int64_t i, std::span<std::int32_t> tokens) const;

 private:
  std::string file_, name_, digest_;
  IdSequences ids_;
  std::int64_t length_;
};

/// Updates of the sequences of a file. Each epoch has its own random order of all sequences, derived from the seed and
/// the epoch's number, and is cut into updates of `sequences_per_update`; its last update may be smaller. A position
/// holds the sequences that are done in its epoch, so that a run resumes from it even if sequences_per_update changes.
class SequenceSource : public UpdateSource {
 public:
  /// Throws UsageFailure if an option is out of range.
  SequenceSource(SequenceFile file, std::int64_t sequences_per_update, std::uint64_t seed);

  UpdateBatches make(std::int64_t update, const DataPosition& start, const RankPart& part) const override;
  DataPosition after(const DataPosition& start) const override;
  DataPosition resume(DataOrder order, const std::optional<DataPosition>& position, double epochs) override;
  std::int64_t updates_per_epoch() const override;
  UpdateShape shape() const override;
  const std::string& digest() const override { return file_.digest(); }

  const SequenceFile& file() const { return file_; }

 private:
  struct Epoch {
    std::int64_t number;
    std::vector<std::int64_t> order;
  };
  std::shared_ptr<const Epoch> epoch(std::int64_t number) const;

  SequenceFile file_;
  std::int64_t sequences_per_update_;
  std::uint64_t seed_;
  mutable std::mutex mutex_;
  mutable std::shared_ptr<const Epoch> last_used_;
};

/// A set of a folder. Its entropy is that of the manifest, which `nmt gssm data` computed for held-out sets.
class SequenceFileSet : public SequenceSet {
 public:
  /// The first `max_sequences` of the set; 0: all. Throws like SequenceFile.
  SequenceFileSet(const Manifest& manifest, const std::string& set, std::int64_t max_sequences = 0);

  const std::string& name() const override { return file_.name(); }
  std::int64_t sequences() const override { return sequences_; }
  std::int64_t length() const override { return file_.length(); }
  void read(std::int64_t i, std::span<std::int32_t> tokens) const override { file_.read(i, tokens); }
  double entropy(std::int64_t first, std::int64_t last, int threads) const override;

 private:
  SequenceFile file_;
  std::int64_t sequences_;
  double nats_per_token_;  // NaN if unknown
};

}  // namespace babelring
