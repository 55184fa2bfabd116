#pragma once

#include <string_view>

#include "nmt/ops/backend.h"

namespace babelring {

/// Tries one small product of the type, so that a machine that has none of that type is found before any work is done.
/// Throws Failure with the backend's description, which names the instruction set, the reason, and `way_out`: what the
/// user can say instead.
void require_products(Backend& backend, DType precision, std::string_view way_out);

}  // namespace babelring
