#pragma once

#include <memory>

#include "nmt/model/transformer.h"
#include "nmt/ops/linear.h"

namespace babelring {

/// The model with its weights in int8, on a backend in host memory.
inline std::unique_ptr<Transformer> quantized_copy(const Transformer& model, Backend& backend) {
  ParameterMemory memory = parameter_memory_of(backend);
  memory.gradients = {};
  auto copy = std::make_unique<Transformer>(model.config(), model.vocabulary(), 0.0f, memory, DType::int8);
  for (const Parameter& parameter : copy->parameters().all()) {
    const Tensor weight = model.parameters().all()[parameter.index].master;
    if (parameter.read_as_f32()) {
      backend.upload(weight.data, parameter.master);
    } else {
      const auto quantized = std::make_shared<QuantizedCopy>(quantize(weight, parameter.name));
      copy->parameters().quantize(parameter, quantized->weight, quantized);
    }
  }
  return copy;
}

}  // namespace babelring
