#pragma once

#include <memory>

#include "nmt/ops/backend.h"

namespace babelring {

/// Runs every op in f32: bf16 operands are copied to f32, and results are rounded to bf16 at the end. So a difference
/// from it is what an op loses by computing in bf16. AdamUpdate, whose bf16 copy is part of its contract, runs as it
/// is. `cpu` must run ops in host memory. Slow; for comparisons.
std::unique_ptr<Backend> make_widening_backend(std::unique_ptr<Backend> cpu);

}  // namespace babelring
