#pragma once

#include "nmt/data/vocabulary.h"
#include "nmt/model/model.h"
#include "nmt/parallel/parameter_sharding.h"
#include "nmt/train/setup/config.h"

namespace babelring {

/// Initializes a new run with the weights of the checkpoint training.start_from. The checkpoint must have the given
/// vocabulary; null skips the check, for tasks without text. Collective; rank 0 reads the file. Throws UsageFailure on
/// every rank if the checkpoint does not fit, and Failure if it is damaged.
void start_from_checkpoint(const TrainConfig& config, const Vocabulary* vocabulary, Model& model,
                           const ParameterSharding& sharding, Backend& backend, Communicator& communicator);

}  // namespace babelring
