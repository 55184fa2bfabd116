#pragma once

#include <string_view>

#include "nmt/ops/backend.h"

namespace babelring {

/// Runs one small matmul of the given type, so that a device without support for it is detected early. Throws Failure
/// with the backend's description (which names the instruction set), the reason and `way_out`, the user's alternative.
void require_matmul(Backend& backend, DType precision, std::string_view way_out);

}  // namespace babelring
