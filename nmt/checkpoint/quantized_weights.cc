#include "nmt/checkpoint/quantized_weights.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

#include "base/digest.h"
#include "base/failure.h"
#include "base/log.h"
#include "base/names.h"
#include "nmt/ops/elementwise.h"
#include "nmt/ops/linear.h"

namespace babelring {
namespace {

namespace fs = std::filesystem;

constexpr const char *weights_key = "weights", *content_key = "content", *layout_key = "layout";
constexpr const char* known_layout = "panels of 64 x 4";  // see QuantizedWeight

/// The parts of a weight in the file, with their names. All scales come first, then all sums, for their alignment.
std::vector<NamedTensor> parts_of(const std::vector<std::pair<std::string, QuantizedWeight>>& weights) {
  std::vector<NamedTensor> parts;
  for (const auto& [name, weight] : weights) parts.push_back({name + ".scales", weight.scales});
  for (const auto& [name, weight] : weights) parts.push_back({name + ".sums", weight.sums});
  for (const auto& [name, weight] : weights) parts.push_back({name, weight.elements});
  return parts;
}

std::string content_digest(const std::vector<std::pair<std::string, QuantizedWeight>>& weights) {
  Sha256 digest;
  for (const NamedTensor& part : parts_of(weights)) digest.add(part.tensor.data, part.tensor.bytes());
  return digest.hex();
}

/// Equal for equal weights.
std::string source_digest(const Checkpoint& checkpoint) {
  if (!checkpoint.weights_digest.root.empty()) return checkpoint.weights_digest.root;
  Sha256 digest;  // of an older version's files
  for (const CheckpointFile& file : checkpoint.files) {
    if (shards_of_file(file.name, weight_tensors) > 0) digest.add(file.sha256);
  }
  return digest.hex();
}

std::vector<const Parameter*> quantized_parameters(const Model& model) {
  std::vector<const Parameter*> parameters;
  for (const Parameter& parameter : model.parameters().all()) {
    if (!parameter.read_as_f32()) parameters.push_back(&parameter);
  }
  return parameters;
}

/// Weights in int8, mapped or in memory.
struct QuantizedWeights {
  std::vector<std::pair<std::string, QuantizedWeight>> weights;
  std::shared_ptr<const void> owner;
};

/// Maps the file. Throws Failure if it is damaged, or of other weights.
QuantizedWeights map_file(const fs::path& file, const std::string& source, const Model& model) {
  const auto reader = std::make_shared<const SafetensorsReader>(file);
  const auto text = [&](const char* key) { return get_text(reader->metadata(), key); };
  if (text(weights_key) != source || text(layout_key) != known_layout) {
    fail("{}: is of other weights or another version", file.string());
  }
  QuantizedWeights found{.weights = {}, .owner = reader};
  for (const Parameter* parameter : quantized_parameters(model)) {
    QuantizedWeight weight{.shape = parameter->shape, .elements = {}, .scales = {}, .sums = {}};
    const Shape outputs{weight.panels() * QuantizedWeight::panel_outputs};
    weight.elements = reader->tensor(parameter->name, weight.elements_shape(), DType::int8);
    weight.scales = reader->tensor(parameter->name + ".scales", outputs, DType::f32);
    weight.sums = reader->tensor(parameter->name + ".sums", outputs, DType::i32);
    found.weights.emplace_back(parameter->name, weight);
  }
  if (const std::string content = content_digest(found.weights); content != text(content_key)) {
    fail("{}: content is {:.12}…, expected {:.12}…", file.string(), content, text(content_key));
  }
  return found;
}

QuantizedWeights quantize_all(const TensorFiles& files, const Model& model) {
  const auto copies = std::make_shared<std::vector<QuantizedCopy>>();
  QuantizedWeights made{.weights = {}, .owner = copies};
  for (const Parameter* parameter : quantized_parameters(model)) {
    const ConstTensor weight = files.tensor(parameter->name, parameter->shape);
    copies->push_back(quantize(weight, parameter->name));
    release_pages(weight);
    made.weights.emplace_back(parameter->name, copies->back().weight);
  }
  return made;
}

void write_file(const fs::path& file, const std::string& source, const QuantizedWeights& made) {
  const std::vector<NamedTensor> parts = parts_of(made.weights);
  std::vector<SafetensorsWriter::Layout> all;
  for (const NamedTensor& part : parts) all.push_back({part.name, part.tensor.shape, part.tensor.dtype});
  SafetensorsWriter writer(
      file, std::move(all),
      {{weights_key, source}, {layout_key, known_layout}, {content_key, content_digest(made.weights)}});
  for (const NamedTensor& part : parts) writer.add(part.tensor);
  writer.finish();
}

/// The weights of the file, which is written if need be, or else in memory.
QuantizedWeights weights_of(const Checkpoint& checkpoint, const TensorFiles& files, const Model& model) {
  const fs::path file = checkpoint.folder / quantized_file_name;
  const std::string source = source_digest(checkpoint);
  std::error_code unknown;
  if (fs::exists(file, unknown)) {
    try {
      return map_file(file, source, model);
    } catch (const Failure& failure) {
      spdlog::info("{}; quantizing again", failure.what());
    }
  }
  require_finite(files);
  QuantizedWeights made = quantize_all(files, model);
  try {
    write_file(file, source, made);
    return map_file(file, source, model);
  } catch (const Failure& failure) {
    spdlog::info("int8 weights are not kept for the next time: {}", failure.what());
    return made;
  }
}

}  // namespace

void read_quantized_weights(const Checkpoint& checkpoint, Model& model, Backend& backend) {
  if (!backend.host_memory()) fail("int8: found {}, expected a processor", backend.description());
  const TensorFiles files = checkpoint.weights();
  const QuantizedWeights found = weights_of(checkpoint, files, model);
  for (const Parameter& parameter : model.parameters().all()) {
    if (parameter.read_as_f32()) backend.upload(files.tensor(parameter.name, parameter.shape).data, parameter.master);
  }
  std::size_t next = 0;
  for (const Parameter* parameter : quantized_parameters(model)) {
    model.parameters().quantize(*parameter, found.weights[next++].second, found.owner);
  }
}

std::unique_ptr<Transformer> quantized_copy(const Transformer& model, Backend& backend) {
  if (!backend.host_memory()) fail("int8: found {}, expected a processor", backend.description());
  ParameterMemory memory = parameter_memory_of(backend);
  memory.gradients = {};
  auto copy = std::make_unique<Transformer>(model.config(), model.vocabulary(), 0.0f, memory, DType::int8);
  for (const Parameter& parameter : copy->parameters().all()) {
    const Parameter& original = model.parameters().all()[parameter.index];
    if (parameter.read_as_f32()) {
      backend.upload(original.master.data, parameter.master);
      continue;
    }
    const Buffer plain = allocate_host(static_cast<std::size_t>(original.shape.elements()) * sizeof(float));
    backend.run(Cast{.x = original.compute, .y = plain.view(original.shape, DType::f32)});
    const auto quantized =
        std::make_shared<QuantizedCopy>(quantize(plain.view(original.shape, DType::f32), parameter.name));
    copy->parameters().quantize(parameter, quantized->weight, quantized);
  }
  return copy;
}

}  // namespace babelring
