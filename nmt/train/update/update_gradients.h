#pragma once

#include <functional>
#include <map>
#include <memory>
#include <vector>

#include "nmt/comm/communicator.h"
#include "nmt/core/parameters.h"
#include "nmt/data/update_source.h"
#include "nmt/metering/step_clock.h"
#include "nmt/ops/backend.h"
#include "nmt/parallel/unit_gradients.h"
#include "nmt/train/update/model_replica.h"

namespace babelring {

/// Brings the gradients of units that move to the ranks that add them (docs/design/units.md). Collective: in each
/// update with such units every rank calls begin(), give() for those that it computes for others, and finish().
class UnitExchange {
 public:
  /// All must outlive the object.
  UnitExchange(Backend& backend, Communicator& communicator, const ParameterStore& store);

  void begin(const UpdateBatches& batches);
  /// The whole gradient of `unit`, which moves from this rank, is in array 0 of the store.
  void give(int unit);
  /// Waits for the units that move to this rank, then calls add(gradients, unit) for each, ascending.
  void finish(const std::function<void(const float* gradients, int unit)>& add);

 private:
  void start_when_given();
  std::shared_ptr<Buffer> memory(std::size_t index);

  Backend& backend_;
  Communicator& communicator_;
  const ParameterStore& store_;
  std::vector<int> ranks_;                       // by position
  std::vector<std::shared_ptr<Buffer>> memory_;  // kept for later updates
  std::vector<Transfer> transfers_;              // of this update
  std::map<int, std::size_t> gives_, receives_;  // units, and their transfers
  std::size_t given_ = 0;
};

/// Per-block sums of squares of an update's whole gradient, the same on all ranks. See GradientNorm.
struct GradientSquares {
  ConstTensor on_backend;                             // valid until the next update
  std::shared_ptr<const std::vector<float>> fetched;  // valid after Backend::await_fetched()
};

/// The gradients of an update: forward and backward of this rank's micro-batches, and their sum over all ranks. Does
/// not wait for a device. With training.cuda_graphs, a device replays passes that it has recorded.
class UpdateGradients {
 public:
  /// All must outlive the object. The clock measures the parts of the update.
  UpdateGradients(const TrainConfig& config, ModelReplica& replica, StepClock& clock);

  /// Forward and backward of micro-batch `index`, of the loss divided by the update's target tokens. The first one of a
  /// unit overwrites the unit's gradients, the others add to them; units are added in a tree, on this rank or on the
  /// one that they move to. During the last one, buckets start to be reduced, unless this rank waits for units that
  /// other ranks compute. The losses are valid after Backend::await_fetched().
  FetchedLosses forward_backward(const UpdateBatches& batches, std::size_t index);
  /// Waits until every gradient is summed over all ranks.
  void reduce();
  /// Call once after reduce().
  GradientSquares squares();
  /// The wanted size of a bucket. 0: a single rank, or ranks with one copy of the model, sum without buckets.
  std::int64_t bucket_bytes() const;

 private:
  void begin(const UpdateBatches& batches);
  Context make_context(const UpdateBatches& batches, std::size_t index);
  FetchedLosses replay(Context& context, const PackedBatch& batch, float gradient_scale);
  bool reduces_embedding_rows() const;
  void report(const Parameter& parameter);
  void add_moved_units();

  const TrainConfig& config_;
  ModelReplica& replica_;
  StepClock& clock_;
  UnitGradients units_;
  UnitExchange exchange_;
  UnitRange own_units_;    // of this update
  bool receives_ = false;  // units of this update
  std::int64_t bucket_bytes_;
  std::unique_ptr<GradientReducer> reducer_;
  const EmbeddingRows* embedding_rows_ = nullptr;  // of this update; null: embedding gradients go to their tables
  bool replays_;                                   // gives passes to Backend::repeat()
};

}  // namespace babelring
