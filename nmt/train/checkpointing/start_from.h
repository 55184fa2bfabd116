#pragma once

#include <filesystem>

#include "nmt/data/vocabulary.h"
#include "nmt/model/transformer.h"
#include "nmt/parallel/model_ownership.h"
#include "nmt/train/config.h"

namespace babelring {

/// The parameters of a model that training.freeze names: globs as of fnmatch(3), separated by commas. Throws
/// UsageFailure for one that matches none, and if nothing is left to train.
std::vector<const Parameter*> frozen_parameters(const ParameterStore& parameters, const std::string& globs);

/// Gives a new run the weights of the checkpoint that training.start_from names, whose vocabulary must be the data's
/// (null: of a task without text). Rank 0 reads it; every rank calls this. Throws UsageFailure on every rank if the
/// checkpoint does not fit, Failure if it is damaged.
void start_from_checkpoint(const TrainConfig& config, const Vocabulary* vocabulary, Transformer& model,
                           const ModelOwnership& ownership, Backend& backend, Communicator& communicator);

}  // namespace babelring
