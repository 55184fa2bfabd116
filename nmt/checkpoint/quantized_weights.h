#pragma once

#include <memory>

#include "nmt/checkpoint/checkpoint.h"
#include "nmt/model/transformer.h"

namespace babelring {

/// Gives a model of int8 on a backend in host memory the weights of a checkpoint. Those of matmuls and tables are
/// mapped from quantized_file_name, so that the processes of a host share their memory. If that file is absent, damaged
/// or of other weights, they are quantized now, one after the other, and written there for the next time; where it
/// cannot be written, they stay in memory. Logs one line then. Throws Failure if a weight is not finite, or a parameter
/// is missing or has another shape.
void read_quantized_weights(const Checkpoint& checkpoint, Model& model, Backend& backend);

/// The model with the weights that its matmuls read rounded to int8, without gradients, on a backend in host memory.
/// Throws Failure if the backend is another, or a weight is not finite.
std::unique_ptr<Transformer> quantized_copy(const Transformer& model, Backend& backend);

}  // namespace babelring
