#pragma once

#include <memory>

#include "nmt/ops/backend.h"

namespace babelring {

/// The GPU module's own kernels and host code without a GPU: each of CUDA's threads runs on the CPU, one at a time
/// (tests/nmt/ops/cuda/emulation). Slow.
/// There are two devices.
std::unique_ptr<Backend> make_emulated_cuda_backend(int device = 0);

}  // namespace babelring
