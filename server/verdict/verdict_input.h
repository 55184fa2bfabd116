#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "insight/report/run_history.h"
#include "insight/steps.h"
#include "server/launch/profile.h"
#include "server/store/runs.h"

namespace babelring::verdict {

/// The step time of an earlier run.
struct RecordedStepTime {
  std::string run;
  double step_ms = 0;  // median of its newest updates
};

/// The step time of the newest comparable run: equal model, precision, tokens per update and per micro-batch, threads
/// and number of ranks, on the same machines, that is, with the same profile, or, for a profile without hosts, started
/// by hand on this machine. `config` must be resolved; `parameters`, unless 0, must be equal too. Considers the newest
/// 200 runs. Throws SqlFailure.
std::optional<RecordedStepTime> recorded_step_time(store::Reader& reader, const launch::Profile& profile,
                                                   std::string_view config, std::int64_t world_size,
                                                   std::int64_t parameters);

/// Steps of all ranks together that a verdict reads, and that an answer within milliseconds can read.
inline constexpr std::int64_t verdict_step_rows = 20'000, fast_step_rows = 4'096;

/// Reads the input of the verdict: the newest steps of all ranks of the current attempt, its pauses, and facts from the
/// configuration. Reads about `max_step_rows` steps for a run of any length, but at least 16 updates of each rank.
/// Throws SqlFailure.
Input read_input(store::Reader& reader, const store::RunRow& run, std::int64_t max_step_rows = verdict_step_rows);

/// Reads the records of a run from the store: those that read_spooled_history() reads from its spools, so that both
/// give the same report. Reads at most about 2 · StepThinning::max_steps steps for a run of any length. Throws
/// SqlFailure.
insight::RunHistory read_stored_history(store::Reader& reader, const store::RunRow& run);

}  // namespace babelring::verdict
