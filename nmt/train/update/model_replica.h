#pragma once

#include <memory>

#include "nmt/model/model.h"
#include "nmt/optim/adam.h"
#include "nmt/parallel/parameter_sharding.h"
#include "nmt/parallel/rank_context.h"
#include "nmt/train/setup/config.h"

namespace babelring {

/// One rank's model with everything that training changes, and the memory of its passes. CPU ranks of a host may share
/// weights and moments, see ParameterSharding.
struct ModelReplica {
  /// Allocates zeroed weights, gradients and moments, and applies training.freeze. Collective. `backend` and
  /// `communicator` must outlive the replica. Throws UsageFailure if training.freeze does not fit the model.
  ModelReplica(const TrainConfig& config, std::int64_t vocabulary, Backend& backend, Communicator& communicator);
  /// Sets the weights to initial values that depend on the seed only. Collective.
  void initialize(std::uint64_t seed);
  /// Sets all gradients to 0, also the padding between parameters, which backward does not write.
  void clear_gradients();
  /// Sets the average of the weights, if training.ema asks for one, to the weights. Collective.
  void start_average();
  /// Exchanges the weights for their average, or back. The average must be there, and nobody may use the weights while
  /// this runs. Costs a copy of both through host memory. Collective.
  void exchange_average();
  /// Waits until the weights of the last update have arrived from other hosts or GPUs. Call it before anything but the
  /// next update reads or writes weights. Throws CommError.
  void await_weights();

  RankContext rank() { return {.backend = backend, .communicator = communicator, .arenas = arenas}; }

  Backend& backend;
  Communicator& communicator;
  ParameterSharding sharding;
  const std::unique_ptr<Model> owned_model;
  Model& model;  // *owned_model
  Adam adam;
  ActivationArenas arenas;
  const std::unique_ptr<WeightsGather> weights_gather;  // null unless the optimizer is sharded
};

}  // namespace babelring
