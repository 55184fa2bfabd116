#pragma once

#include <memory>

#include "nmt/ops/backend.h"

namespace babelring {

/// Runs ops on tensors in host memory by a backend with other memory: copies every operand there, runs the op, waits
/// and copies all back. Slow; for tests and comparisons that make and read tensors on the host.
std::unique_ptr<Backend> make_staged_backend(std::unique_ptr<Backend> device);

}  // namespace babelring
