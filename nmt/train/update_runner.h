#pragma once

#include <cstdint>
#include <memory>

#include "base/records.h"
#include "nmt/comm/communicator.h"
#include "nmt/data/batch_pipeline.h"
#include "nmt/layers/activation_arenas.h"
#include "nmt/metering/step_clock.h"
#include "nmt/model/transformer.h"
#include "nmt/optim/adam.h"
#include "nmt/parallel/parameter_sharding.h"
#include "nmt/train/config.h"

namespace babelring {

/// What one rank asks for at the end of an update.
struct Votes {
  bool stop = false;
  bool without_checkpoint = false;  // when it stops
  bool checkpoint = false;
};

/// What all ranks know after an update, bit-equal on all.
struct UpdateResult {
  LossSums loss;               // over all ranks
  Votes votes;                 // of any rank
  double elapsed_minutes = 0;  // rank 0's
};

/// One optimizer update: gradients of this rank's micro-batches, their sum over ranks, Adam on what of the model is
/// this rank's to update. A device is waited for once, for the losses and the gradient's norm, when it has been given
/// Adam, with which it goes on by itself.
class UpdateRunner {
 public:
  /// All must outlive the runner. `model` and `adam` were made with the memory and the shares of `ownership`.
  UpdateRunner(const TrainConfig& config, Transformer& model, Adam& adam, const ParameterSharding& ownership,
               Backend& backend, Communicator& communicator, ActivationArenas& arenas);

  /// Fills everything in `record` that is known here: losses, time split, bytes, FLOPs. `data_ms` was spent waiting for
  /// `batches`. `votes` and `minutes` are this rank's contribution to the result.
  UpdateResult run(const UpdateBatches& batches, double learning_rate, double data_ms, const Votes& votes,
                   double minutes, StepRecord& record);

 private:
  std::vector<FetchedLosses> start_gradients(const UpdateBatches& batches);
  FetchedLosses repeat_pass(Context& context, const PackedBatch& batch, float gradient_scale);
  bool rows_may_go_apart() const;
  std::vector<double> summed_over_ranks(const std::vector<FetchedLosses>& losses, const Votes& votes, double minutes);

  const TrainConfig& config_;
  Transformer& model_;
  Adam& adam_;
  const ParameterSharding& ownership_;
  Backend& backend_;
  Communicator& communicator_;
  ActivationArenas& arenas_;
  std::unique_ptr<GradientReducer> gradients_;
  StepClock clock_;
  bool repeats_;  // gives passes to Backend::repeat()
};

}  // namespace babelring
