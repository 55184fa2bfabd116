#pragma once

#include <memory>

#include "nmt/ops/backend.h"

namespace babelring {

/// A backend that checks every op and computes nothing: its memory has addresses but no bytes, whoever downloads reads
/// zeros. For finding out what memory a pass needs. `room` is what it says of its memory. `like` answers what a backend
/// is asked about ops before they run, and must outlive it; null: Backend's own answers.
std::unique_ptr<Backend> make_dry_backend(const MemoryRoom& room = {}, Backend* like = nullptr);

}  // namespace babelring
