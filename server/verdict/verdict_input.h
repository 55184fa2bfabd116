#pragma once

#include "insight/verdict/input.h"
#include "server/store/runs.h"

namespace babelring::verdict {

/// Reads the input of the verdict: the newest steps of all ranks of the current attempt, its pauses, and facts from the
/// configuration. Reads a bounded number of rows for a run of any length. Throws SqlFailure.
Input read_input(store::Reader& reader, const store::RunRow& run);

}  // namespace babelring::verdict
