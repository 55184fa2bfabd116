#pragma once

#include <memory>

#include "nmt/ops/backend.h"

namespace babelring {

/// Runs ops on tensors in the host's memory by a backend with memory of its own: copies every operand there, runs the
/// op, waits and copies all back. So tests that make and read tensors on the host serve a GPU as well. Slow.
std::unique_ptr<Backend> make_staged_backend(std::unique_ptr<Backend> device);

}  // namespace babelring
