#pragma once

#include "nmt/ops/backend.h"

namespace babelring {

/// Runs the ops that a rank's updates do not need, those of decoding and of sums over ranks among them, on small random
/// tensors of fixed values in host memory. `precision`: type of the activations.
void run_remaining_ops(Backend& backend, DType precision);

}  // namespace babelring
