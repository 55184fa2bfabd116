#pragma once

#include <memory>

#include "nmt/ops/backend.h"

namespace babelring {

/// A backend that checks every op and computes nothing, to find out what memory a pass needs: its memory has addresses
/// but no bytes, and downloads give zeros. `room` is what memory() returns. `like` answers questions about ops that
/// depend on the backend, and must outlive this one; null: Backend's defaults.
std::unique_ptr<Backend> make_dry_backend(const MemoryRoom& room = {}, Backend* like = nullptr);

}  // namespace babelring
