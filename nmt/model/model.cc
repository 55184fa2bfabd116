#include "nmt/model/model.h"

#include "nmt/model/language_model.h"
#include "nmt/model/transformer.h"
#include "nmt/ops/dry_backend.h"
#include "nmt/ops/elementwise.h"

namespace babelring {

void Model::initialize(Backend& backend, std::uint64_t seed) {
  for (const Parameter& parameter : store_.all()) {
    backend.upload(initial_values(parameter, seed).data(), parameter.master);
  }
  refresh_compute_copies(backend);
}

void Model::refresh_compute_copies(Backend& backend) {
  if (const Tensor copies = store_.compute_copies()) backend.run(Cast{.x = store_.masters(), .y = copies});
}

void Model::add_no_gradients(Context& context) const {
  for (const Parameter& parameter : store_.all()) {
    if (!context.accumulate) context.backend.run(Fill{.y = parameter.gradient, .value = 0});
  }
  for (auto parameter = store_.all().rbegin(); parameter != store_.all().rend(); ++parameter) {
    context.ready(&*parameter);
  }
}

void Model::skip_layer(Context& context, const std::string& layer) const {
  for (auto parameter = store_.all().rbegin(); parameter != store_.all().rend(); ++parameter) {
    if (!parameter->name.starts_with(layer + ".")) continue;
    if (!context.accumulate) context.backend.run(Fill{.y = parameter->gradient, .value = 0});
    context.ready(&*parameter);
  }
}

Context Model::second_pass(const Context& context) {
  constexpr std::uint64_t site = 5;  // not one of a dropout layer
  Context second = context;
  second.dropout_seed = derive_seed(context.dropout_seed, site);
  second.gradient_ready = {};
  return second;
}

bool has_row_per_piece(const Parameter& parameter) {
  if (parameter.shape.rank() == 1) return parameter.name == OutputProjectionLoss::bias_name;
  return !parameter.name.ends_with(".weight");
}

ParameterMemory parameter_memory_of(Backend& backend) {
  const auto allocator = [&backend](MemoryPurpose purpose) {
    return [&backend, purpose](std::size_t bytes) { return backend.allocate(bytes, purpose); };
  };
  return {.weights = allocator(MemoryPurpose::weights), .gradients = allocator(MemoryPurpose::gradients)};
}

std::unique_ptr<Model> make_model(const ModelConfig& config, std::int64_t vocabulary, float label_smoothing,
                                  const ParameterMemory& memory, DType compute) {
  if (config.encoder_layers == 0) {
    return std::make_unique<LanguageModel>(config, vocabulary, label_smoothing, memory, compute);
  }
  return std::make_unique<Transformer>(config, vocabulary, label_smoothing, memory, compute);
}

std::int64_t count_parameters(const ModelConfig& config, std::int64_t vocabulary) {
  const std::unique_ptr<Backend> backend = make_dry_backend();
  return make_model(config, vocabulary, 0, parameter_memory_of(*backend), DType::f32)->parameters().count();
}

}  // namespace babelring
