#pragma once

#include <filesystem>

#include "nmt/data/vocabulary.h"
#include "nmt/model/model.h"
#include "nmt/parallel/parameter_sharding.h"
#include "nmt/train/config.h"

namespace babelring {

/// The parameters selected by training.freeze: comma-separated globs for fnmatch(3). Throws UsageFailure if a glob
/// matches no parameter or if no parameter is left to train.
std::vector<const Parameter*> frozen_parameters(const ParameterStore& parameters, const std::string& globs);

/// Initializes a new run with the weights of the checkpoint training.start_from. The checkpoint must have the given
/// vocabulary; null skips the check, for tasks without text. Collective; rank 0 reads the file. Throws UsageFailure on
/// every rank if the checkpoint does not fit, and Failure if it is damaged.
void start_from_checkpoint(const TrainConfig& config, const Vocabulary* vocabulary, Model& model,
                           const ParameterSharding& sharding, Backend& backend, Communicator& communicator);

}  // namespace babelring
