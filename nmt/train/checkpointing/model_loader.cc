#include "nmt/train/checkpointing/model_loader.h"

#include "base/atomic_file.h"
#include "nmt/checkpoint/finite.h"

namespace babelring {

void read_weights(const SafetensorsReader& weights, Transformer& model, Backend& backend) {
  require_finite(weights);
  for (const Parameter& parameter : model.parameters().all()) {
    backend.upload(weights.tensor(parameter.name, parameter.shape).data, parameter.master);
  }
  model.refresh_compute_copies(backend);
}

LoadedModel load_model(const std::filesystem::path& folder, Backend& backend, DType precision) {
  Checkpoint checkpoint = load_checkpoint(folder, Verify::model).value();
  const std::filesystem::path config_file = checkpoint.folder / "config.yaml";
  TrainConfig config = read_config(read_file(config_file), config_file.string(), {});
  Vocabulary vocabulary = Vocabulary::load(checkpoint.folder / "spm.model");
  const ParameterMemory memory{.weights = [&](std::size_t bytes) { return backend.allocate(bytes); }, .gradients = {}};
  auto transformer = std::make_unique<Transformer>(
      config.model, vocabulary.size(), static_cast<float>(config.optimizer.label_smoothing), memory, precision);
  read_weights(checkpoint.weights(), *transformer, backend);
  return {.config = std::move(config),
          .vocabulary = std::move(vocabulary),
          .transformer = std::move(transformer),
          .checkpoint = std::move(checkpoint)};
}

}  // namespace babelring
