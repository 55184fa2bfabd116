#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

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

}  // namespace babelring::verdict
