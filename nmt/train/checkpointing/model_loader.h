#pragma once

#include <filesystem>
#include <memory>

#include "nmt/checkpoint/checkpoint.h"
#include "nmt/data/vocabulary.h"
#include "nmt/model/transformer.h"
#include "nmt/train/config.h"

namespace babelring {

/// A checkpoint ready to translate: what `nmt translate` and `nmt evaluate` work with.
struct LoadedModel {
  TrainConfig config;  // of the run that made it
  Vocabulary vocabulary;
  std::unique_ptr<Transformer> transformer;
  Checkpoint checkpoint;
};

/// Loads weights, vocabulary and configuration of a checkpoint folder. `precision` is that of the products. Throws
/// Failure naming the file that is missing or damaged, or the weight that is not finite.
LoadedModel load_model(const std::filesystem::path& folder, Backend& backend, DType precision);

/// Copies the named weights into the masters and refreshes the compute copies. Throws Failure if a weight is not finite
/// or a parameter is missing or of another shape.
void read_weights(const SafetensorsReader& weights, Transformer& model, Backend& backend);

}  // namespace babelring
