#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "nmt/core/packed_batch.h"

namespace babelring {

class UpdateAssignment;

/// Sentence order within an epoch.
enum class DataOrder {
  shuffled,  // every update mixes sentences of all lengths
  pooled,  // of runs that began before `shuffled` was there: the sentences of 64 updates are sorted by length together,
           // so that an update holds sentences of nearly one length
};

enum class SampledSides { both, source, target };

/// How training sentences are segmented anew in each epoch: subword regularisation.
struct SegmentationOptions {
  /// Probability that a merge of a BPE vocabulary is left out where it could be made. Source: Provilkov et al. 2020,
  /// "BPE-Dropout".
  double bpe_dropout = 0;
  /// A segmentation by a unigram vocabulary is drawn in proportion to its probability to the power of this; 0: always
  /// the best one. Source: Kudo 2018, "Subword Regularization", with all segmentations (l = infinity).
  double sampling = 0;
  SampledSides sides = SampledSides::both;

  bool draws() const { return bpe_dropout > 0 || sampling > 0; }
};

/// The weights of corpora until a point of the training.
struct MixEnd {
  enum class Unit { none, updates, epochs, target_tokens };  // none: the end of the training
  Unit unit = Unit::none;
  double value = 0;

  /// "50 updates"; only of an end.
  std::string text() const;
};
struct MixStage {
  std::vector<std::pair<std::string, double>> weights;  // of corpora by name, above 0
  MixEnd end;
};
/// How the corpora of a training set are mixed, see MixedPlan.
struct MixOptions {
  std::vector<MixStage> stages;  // the last one has no end
  double temperature = 0;        // without stages: weights are sizes to the power of 1 / temperature; 0: no mix

  bool empty() const { return stages.empty() && temperature == 0; }
};

/// A position in one corpus of a mix.
struct CorpusPosition {
  std::int64_t epoch = 0, sentences = 0;  // in the epochs of the corpus, as in DataPosition
  std::int64_t credit = 0;                // see MixedPlan
  friend bool operator==(const CorpusPosition&, const CorpusPosition&) = default;
};

/// A position in the training data: in epoch `epoch`, `sentences` sentences are done. `sentences` is always below the
/// epoch's size; the end of an epoch is the start of the next.
struct DataPosition {
  std::int64_t epoch = 0;  // from 0
  std::int64_t sentences = 0;
  // In a mix instead, where the beginning has no corpora: positions in all corpora, updates and target tokens so far.
  std::vector<CorpusPosition> corpora = {};
  std::int64_t updates = 0, target_tokens = 0;
  friend bool operator==(const DataPosition&, const DataPosition&) = default;
};

/// The units of an update that are added on a rank: [first, first + count) of `total`. A unit is a part of the update's
/// sentences whose gradient is computed apart, so that it does not depend on the number of ranks
/// (docs/design/units.md).
struct UnitRange {
  int first = 0, count = 1, total = 1;
  bool has(int unit) const { return unit >= first && unit < first + count; }
};

/// A unit computed by `computed_by` on behalf of `home`, in whose range it lies. Both are ring positions.
struct MovedUnit {
  int unit = 0, computed_by = 0, home = 0;
  friend bool operator==(const MovedUnit&, const MovedUnit&) = default;
};

/// A sentence pair of an update.
struct PlannedPair {
  std::int64_t sentence = 0, epoch = 0;  // in the corpus, from 0; in a mix, the epoch is that of its part
};

/// One rank's data for one update.
struct UpdateBatches {
  std::int64_t update = 0;
  DataPosition next;                      // data position after this update
  double epoch = 0;                       // epochs completed after this update
  std::int64_t global_sentences = 0;      // over all ranks
  std::int64_t global_source_tokens = 0;  // over all ranks, with </s>
  std::int64_t global_target_tokens = 0;  // over all ranks, with </s>; divisor of losses and gradients
  std::int64_t sentences = 0;             // of this rank
  std::int64_t source_tokens = 0, target_tokens = 0;
  // Exact entropy of the source, as the sum of -log p over this rank's target tokens, in nats; NaN if not computed. It
  // is computed on all ranks or on none.
  double entropy = std::numeric_limits<double>::quiet_NaN();
  std::size_t corpora = 0;          // UpdateSource::corpora(), by which the micro-batches number their sentences
  std::vector<PlannedPair> pairs;   // of the update over all ranks; empty without PlanOptions::names_pairs
  UnitRange units;                  // of this rank, as they are added
  std::vector<int> computed = {0};  // the units that this rank computes: first those of other ranks, then its own
  std::vector<PackedBatch> micro_batches;  // those of each unit in `computed`, as many for each; some may be empty
  std::vector<MovedUnit> moved;            // of all ranks, ascending by unit

  std::size_t micro_batches_per_unit() const { return micro_batches.size() / computed.size(); }
  /// True if another rank computes units of this rank's range.
  bool receives() const {
    return std::any_of(moved.begin(), moved.end(), [&](const MovedUnit& unit) { return units.has(unit.unit); });
  }
};

/// A rank's part of every update, and its division into micro-batches.
struct RankPart {
  int rank = 0;
  int world = 1;
  std::int64_t micro_batch_tokens = 0;  // max source or target tokens per micro-batch; 0: no limit, one micro-batch
  /// Cut the update into this number of units, of which each rank adds an equal number, in the order of ranks. 0: each
  /// rank's part is one unit.
  int units = 0;
  /// Parts of other sizes; null: equal ones. With units, those that a rank computes: see unit_counts().
  const UpdateAssignment* assignment = nullptr;
};

/// The units of `part`'s rank.
inline UnitRange units_of(const RankPart& part) {
  if (part.units == 0) return {};
  const int count = part.units / part.world;
  return {.first = part.rank * count, .count = count, .total = part.units};
}

/// The size of a source's updates, from which their memory follows.
struct UpdateShape {
  std::int64_t max_length = 0;                  // tokens of the longest sentence on either side
  double source_tokens = 0, target_tokens = 0;  // of an update over all ranks, on average
};

/// Where the updates of a run come from. An update is a pure function of the source, the position at which it starts,
/// and its number. make() may be called by several threads at once.
class UpdateSource {
 public:
  virtual ~UpdateSource() = default;

  /// This rank's part of the update that starts at `start`: the `next` of the update before, or the beginning. `update`
  /// is its number. Throws Failure if the source has no such position.
  virtual UpdateBatches make(std::int64_t update, const DataPosition& start, const RankPart& part) const = 0;
  /// The start of the update after the one that starts at `start`: `next` of its UpdateBatches, without making it.
  virtual DataPosition after(const DataPosition& start) const = 0;
  /// Continues a run that began with data in the given order: returns `position`, if the source has it, otherwise the
  /// start of the first update after at least `epochs` epochs. Call before make().
  virtual DataPosition resume(DataOrder order, const std::optional<DataPosition>& position, double epochs) = 0;
  /// 0 if the source never ends.
  virtual std::int64_t updates_per_epoch() const = 0;
  virtual UpdateShape shape() const = 0;
  /// The names of the corpora that PackedBatch::corpora numbers; empty: there are none.
  virtual std::vector<std::string> corpora() const { return {}; }
  /// Identifies the data as 64 hexadecimal digits. A run does not resume from a checkpoint of other data.
  virtual const std::string& digest() const = 0;
};

}  // namespace babelring
