#pragma once

#include "insight/report/run_history.h"
#include "server/store/runs.h"

namespace babelring::verdict {

/// Reads the records of a run from the store: those that read_spooled_history() reads from its spools, so that both
/// give the same report. Reads at most about 2 · StepThinning::max_steps steps for a run of any length. Throws
/// SqlFailure.
insight::RunHistory read_stored_history(store::Reader& reader, const store::RunRow& run);

}  // namespace babelring::verdict
