#pragma once

#include <memory>

#include "nmt/ops/backend.h"

namespace babelring {

/// A backend that checks every op but computes nothing, for measuring the memory of a pass. Its memory has addresses
/// but no storage, and downloads return zeros. `room` is the result of memory(). `like` answers backend-specific
/// questions about ops and must outlive this backend; if null, Backend's defaults apply. Tensors of both may be used
/// together.
std::unique_ptr<Backend> make_dry_backend(const MemoryInfo& room = {}, Backend* like = nullptr);

/// A dry backend that answers like an unknown GPU: joined matmuls, rows without padding, the largest chunks of logits.
std::unique_ptr<Backend> make_dry_device();

}  // namespace babelring
