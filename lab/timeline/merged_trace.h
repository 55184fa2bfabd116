#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>

#include "base/result.h"
#include "insight/predict/predict.h"
#include "lab/timeline/rank_events.h"

namespace babelring {

inline constexpr const char* trace_format = "babelring-trace-1";

/// Joins the parts of all ranks to one trace file: one gzip member of JSON in Chrome's trace-event format. Adds an
/// arrow for each bucket from the rank that asked for it last to each other rank. The Error names a rank without a
/// clock offset: its times would look plausible and be wrong.
Result<std::string> merge_ranks(const std::string& run, std::int64_t first_update, std::int64_t updates,
                                std::span<const RankEvents> ranks);

/// Max updates of a predicted timeline, as of a recorded one.
inline constexpr std::int64_t max_predicted_updates = 20;

/// Simulates the first updates of a predicted run, at most max_predicted_updates, and writes their timeline in the
/// format of recorded ones. The run is called "predicted". Throws UsageFailure as insight::predict(), Failure if the
/// file cannot be written.
void write_predicted_timeline(const insight::RankRecord& record, insight::RunSetup setup, std::uint64_t seed,
                              const std::filesystem::path& file);

}  // namespace babelring
