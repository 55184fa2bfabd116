#pragma once

#include "insight/steps/input.h"
#include "server/store/runs.h"

namespace babelring::verdict {

/// Steps of all ranks together that a verdict reads, and that an answer within milliseconds can read.
inline constexpr std::int64_t verdict_step_rows = 20'000, fast_step_rows = 4'096;

/// Reads the input of the verdict: the newest steps of all ranks of the current attempt, its pauses, and facts from the
/// configuration. Reads about `max_step_rows` steps for a run of any length, but at least 16 updates of each rank.
/// Throws SqlFailure.
Input read_input(store::Reader& reader, const store::RunRow& run, std::int64_t max_step_rows = verdict_step_rows);

}  // namespace babelring::verdict
