#pragma once

#include <cstdint>
#include <filesystem>

#include "insight/predict/predict.h"

namespace babelring {

/// Max updates of a predicted timeline, as of a recorded one.
inline constexpr std::int64_t max_predicted_updates = 20;

/// Simulates the first updates of a predicted run, at most max_predicted_updates, and writes their timeline in the
/// format of recorded ones. The run is called "predicted". Throws UsageFailure as insight::predict(), Failure if the
/// file cannot be written.
void write_predicted_timeline(const insight::RankRecord& record, insight::RunSetup setup, std::uint64_t seed,
                              const std::filesystem::path& file);

}  // namespace babelring
