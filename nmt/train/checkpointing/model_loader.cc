#include "nmt/train/checkpointing/model_loader.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "base/atomic_file.h"
#include "nmt/checkpoint/finite.h"
#include "nmt/data/gssm/graph.h"

namespace babelring {

void read_weights(const TensorFiles& weights, Model& model, Backend& backend) {
  require_finite(weights);
  for (const Parameter& parameter : model.parameters().all()) {
    backend.upload(weights.tensor(parameter.name, parameter.shape).data, parameter.master);
  }
  model.refresh_compute_copies(backend);
}

namespace {

/// The moment whose tensors begin with `prefix`, in the order of the flat arrays, with 0 in their padding.
std::vector<float> read_moment(const TensorFiles& moments, const std::string& prefix,
                               const ParameterStore& parameters) {
  std::vector<float> values(static_cast<std::size_t>(parameters.flat_size()));
  for (const Parameter& parameter : parameters.all()) {
    const ConstTensor tensor = moments.tensor(prefix + parameter.name, parameter.shape);
    std::copy_n(tensor.as<float>(), tensor.shape.elements(), values.begin() + parameter.offset);
  }
  return values;
}

}  // namespace

void load_moments(const Checkpoint* checkpoint, const ModelReplica& replica) {
  for (const auto& [moment, prefix] :
       {std::pair(&replica.adam.first_moment(), "m."), {&replica.adam.second_moment(), "v."}}) {
    std::vector<float> values;
    if (checkpoint != nullptr) values = read_moment(checkpoint->optimizer(), prefix, replica.model.parameters());
    replica.sharding.write_moment(*moment, values);
  }
}

LoadedModel load_model(const std::filesystem::path& folder, Backend& backend, DType precision) {
  Checkpoint checkpoint = load_checkpoint(folder, Verify::model).value();
  const std::filesystem::path config_file = checkpoint.folder / "config.yaml";
  TrainConfig config = read_config(read_file(config_file), config_file.string(), {});
  std::optional<Vocabulary> vocabulary;
  if (config.task == Task::translation) vocabulary = Vocabulary::load(checkpoint.folder / "spm.model");
  const std::int64_t tokens = vocabulary ? vocabulary->size() : make_gssm_graph(config.gssm).vocabulary();
  const ParameterMemory memory{
      .weights = [&](std::size_t bytes) { return backend.allocate(bytes, MemoryPurpose::weights); }, .gradients = {}};
  std::unique_ptr<Model> model =
      make_model(config.model, tokens, static_cast<float>(config.optimizer.label_smoothing), memory, precision);
  read_weights(checkpoint.weights(), *model, backend);
  return {.config = std::move(config),
          .vocabulary = std::move(vocabulary),
          .model = std::move(model),
          .checkpoint = std::move(checkpoint)};
}

}  // namespace babelring
