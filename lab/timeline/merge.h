#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "base/result.h"
#include "lab/timeline/rank_events.h"

namespace babelring {

inline constexpr const char* trace_format = "babelring-trace-1";

/// Joins the parts of all ranks to one trace file: one gzip member of JSON in Chrome's trace-event format. Adds an
/// arrow for each bucket from the rank that asked for it last to each other rank. The Error names a rank without a
/// clock offset: its times would look plausible and be wrong.
Result<std::string> merge_ranks(const std::string& run, std::int64_t first_update, std::int64_t updates,
                                std::span<const RankEvents> ranks);

}  // namespace babelring
