#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "server/launch/profile.h"
#include "server/store/queries.h"

namespace babelring::api {

/// How long updates took in an earlier run.
struct RecordedStepTime {
  std::string run;
  double step_ms = 0;  // median of its newest updates
};

/// Of the newest run that is alike: the same model, precision, tokens of an update and of a micro-batch, threads and
/// number of ranks, on the same machines: through the same profile, or for a profile without hosts by hand on this
/// machine. `config` is resolved; `parameters`, unless 0, must be the same too. Looks at the newest 200 runs. Throws
/// SqlFailure.
std::optional<RecordedStepTime> recorded_step_time(store::Reader& reader, const launch::Profile& profile,
                                                   std::string_view config, std::int64_t world_size,
                                                   std::int64_t parameters);

}  // namespace babelring::api
