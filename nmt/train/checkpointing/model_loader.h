#pragma once

#include <filesystem>
#include <memory>
#include <optional>

#include "nmt/checkpoint/checkpoint.h"
#include "nmt/data/vocabulary.h"
#include "nmt/model/model.h"
#include "nmt/train/setup/config.h"
#include "nmt/train/update/model_replica.h"

namespace babelring {

/// A checkpoint loaded for inference, as used by `nmt translate`, `nmt evaluate` and `nmt gssm sample`. The model has
/// no gradients.
struct LoadedModel {
  TrainConfig config;                    // configuration of the training run
  std::optional<Vocabulary> vocabulary;  // of a translation model
  std::unique_ptr<Model> model;          // the kind that the configuration names
  Checkpoint checkpoint;
};

/// Loads weights, vocabulary and configuration from a checkpoint folder. `precision` is the data type of matmuls.
/// Throws Failure that names the missing or damaged file, or the weight that is not finite.
LoadedModel load_model(const std::filesystem::path& folder, Backend& backend, DType precision);

/// Copies weights into the model's masters by name and refreshes the compute copies. Throws Failure if a weight is not
/// finite, or a parameter is missing or has another shape.
void read_weights(const TensorFiles& weights, Model& model, Backend& backend);

/// Sets the moments of all ranks to those of rank 0's checkpoint; other ranks pass null. Collective. Throws Failure on
/// rank 0 if a tensor is missing or has another shape.
void load_moments(const Checkpoint* checkpoint, const ModelReplica& replica);

}  // namespace babelring
