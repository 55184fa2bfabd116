#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "nmt/data/gssm/generator.h"
#include "nmt/data/sequence_source.h"
#include "nmt/data/update_source.h"

namespace babelring {

struct GssmSourceOptions {
  std::int64_t sequence_length = 2048;     // tokens
  std::int64_t sequences_per_update = 16;  // over all ranks
  std::uint64_t seed = 1;                  // training.seed
  std::int64_t entropy_every = 0;          // updates whose exact entropy is computed are its multiples; 0: none
};

/// Updates of sequences that a generator makes on the fly. Sequence j of update u is a pure function of (graph, seed,
/// u, j): every number of ranks trains on the same sequences, no two ranks share one, and an update needs no position.
class GssmSource : public UpdateSource {
 public:
  /// Throws UsageFailure if an option is out of range.
  GssmSource(GssmGraph graph, const GssmSourceOptions& options);

  UpdateBatches make(std::int64_t update, const DataPosition& start, const RankPart& part) const override;
  DataPosition after(const DataPosition&) const override { return {}; }
  DataPosition resume(DataOrder, const std::optional<DataPosition>&, double) override { return {}; }
  std::int64_t updates_per_epoch() const override { return 0; }
  UpdateShape shape() const override;
  /// The digest of graph and length. Changes with kernel_seed, not with the number of ranks.
  const std::string& digest() const override { return digest_; }

  const GssmGenerator& generator() const { return generator_; }

 private:
  GssmGenerator generator_;
  GssmSourceOptions options_;
  std::string digest_;
};

/// Held-out sequences: the first `sequences` of update -1, which no training update holds. Their entropy is exact.
class GssmHeldOut : public SequenceSet {
 public:
  /// Throws UsageFailure if a size is out of range.
  GssmHeldOut(GssmGraph graph, std::string name, std::int64_t sequences, std::int64_t length, std::uint64_t seed);

  const std::string& name() const override { return name_; }
  std::int64_t sequences() const override { return sequences_; }
  std::int64_t length() const override { return length_; }
  void read(std::int64_t i, std::span<std::int32_t> tokens) const override;
  double entropy(std::int64_t first, std::int64_t last, int threads) const override;

  const GssmGenerator& generator() const { return generator_; }
  /// -log p of each target of sequence i given the tokens before it, in nats [length - 1].
  std::vector<double> target_entropies(std::int64_t i) const;
  SequenceId place(std::int64_t i) const { return {.seed = seed_, .update = -1, .sequence = i}; }

 private:
  GssmGenerator generator_;
  std::string name_;
  std::int64_t sequences_, length_;
  std::uint64_t seed_;
};

}  // namespace babelring
