#pragma once

#include <cstdint>
#include <vector>

#include "base/clock.h"
#include "base/records/records.h"
#include "nmt/data/batch_pipeline.h"
#include "nmt/metering/step_clock.h"
#include "nmt/optim/schedule.h"
#include "nmt/train/update/model_replica.h"
#include "nmt/train/update/update_gradients.h"

namespace babelring {

/// Requests of one rank at the end of an update, and whether it is still writing.
struct Votes {
  bool stop = false;
  bool without_checkpoint = false;  // when it stops
  bool checkpoint = false;
  bool trace = false;    // of the updates that follow
  bool writing = false;  // its part of a checkpoint, or rank 0 the rest of it
  bool damaged = false;  // it has found that the training data is damaged: the run must end
};

/// The loss of a sentence pair in an update.
struct PairLoss {
  std::int64_t pair = 0, epoch = 0;  // as in PlannedPair
  double nll = 0;                    // mean over its target tokens, </s> included, in nats
};

/// Result of an update, bit-equal on all ranks, and this rank's record of it.
struct UpdateResult {
  Progress progress;               // after the update
  DataPosition next;               // data position after the update
  LossSums loss;                   // over all ranks
  CorpusSums corpora;              // over all ranks; empty: the corpora have no names, or the run is emulated
  std::vector<PairLoss> pairs;     // of all ranks; empty without training.pair_losses
  double entropy = 0;              // of the source over the same tokens, in nats, over all ranks; NaN if not computed
  Votes votes;                     // of any rank
  double elapsed_minutes = 0;      // rank 0's training time
  std::int64_t source_tokens = 0;  // over all ranks
  StepRecord record;               // without host, GPU and digest
};

/// Runs optimizer updates: the gradients of this rank's micro-batches, their sum over ranks, and Adam on this rank's
/// shard of the model. A device is waited for once, for the losses and the gradient's norm, after Adam has been given
/// to it; Adam runs on while the host goes on.
class UpdateRunner {
 public:
  /// All must outlive the runner. `spans` may be null.
  UpdateRunner(const TrainConfig& config, ModelReplica& replica, SpanLog* spans = nullptr);

  /// Starts the clock of the training time. `minutes`: training time of earlier attempts.
  void start_time(double minutes);

  /// Runs the next update of `pipeline`, which follows `before`. `votes` are this rank's. The schedule's learning rate
  /// is multiplied by `learning_rate_factor`. Collective. Throws CommError and the pipeline's exceptions.
  UpdateResult run(BatchPipeline& pipeline, const Progress& before, const Votes& votes, double learning_rate_factor);

  /// UpdateGradients::bucket_bytes().
  std::int64_t bucket_bytes() const { return gradients_.bucket_bytes(); }

 private:
  UpdateBatches next_batches(BatchPipeline& pipeline);
  void add_over_ranks(const UpdateBatches& batches, const std::vector<FetchedLosses>& losses, const Votes& votes,
                      UpdateResult& result);
  std::vector<CorpusSums> corpora_of_units(const UpdateBatches& batches,
                                           const std::vector<FetchedLosses>& losses) const;

  const bool emulated_;
  ModelReplica& replica_;
  SpanLog* spans_;
  Schedule schedule_;
  const Interval stop_after_;
  const double max_minutes_;
  StepClock clock_;
  UpdateGradients gradients_;
  Stopwatch watch_;
  double minutes_before_ = 0;   // training time of earlier attempts
  double elapsed_minutes_ = 0;  // the training time after the last update, the same on all ranks
};

}  // namespace babelring
