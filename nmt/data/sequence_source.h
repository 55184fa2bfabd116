#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "nmt/data/id_file.h"
#include "nmt/data/manifest.h"
#include "nmt/data/sequence_set.h"
#include "nmt/data/update_source.h"

namespace babelring {

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
