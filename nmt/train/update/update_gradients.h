#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "nmt/data/update_source.h"
#include "nmt/metering/step_clock.h"
#include "nmt/parallel/unit_gradients.h"
#include "nmt/train/update/model_replica.h"
#include "nmt/train/update/unit_exchange.h"

namespace babelring {

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
  /// The wanted size of a bucket. 0: a single rank, or ranks that share one copy of the model, sum without buckets.
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
