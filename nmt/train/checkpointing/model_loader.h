#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "nmt/checkpoint/checkpoint.h"
#include "nmt/data/vocabulary.h"
#include "nmt/model/model.h"
#include "nmt/optim/adam.h"
#include "nmt/train/config.h"

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

/// The moment whose tensors begin with `prefix`, "m." or "v.", in the order of the flat arrays, with 0 in their
/// padding. Throws Failure if a tensor is missing or has another shape.
std::vector<float> read_moment(const TensorFiles& moments, const std::string& prefix, const ParameterStore& parameters);

}  // namespace babelring
