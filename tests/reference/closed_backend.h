#pragma once

#include <memory>

#include "nmt/ops/backend.h"

namespace babelring {

/// The CPU backend with memory that is shut to everyone else, as a GPU's is: whoever reads or writes what allocate()
/// gives but through the backend dies at once (SIGSEGV). For tests that no code above the ops looks into tensors. Its
/// streams are FakeDeviceStreams.
std::unique_ptr<Backend> make_closed_backend();

}  // namespace babelring
