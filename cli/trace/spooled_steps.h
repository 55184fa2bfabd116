#pragma once

#include <filesystem>
#include <functional>
#include <vector>

#include "base/records/records.h"

namespace babelring {

/// The spools of a rank in the folder of a run, one for each attempt, in their order. Throws UsageFailure if there is
/// none.
std::vector<std::filesystem::path> spools_of(const std::filesystem::path& run, int rank);

/// Passes each record of a spool to `each`. Skips lines that are no JSON objects, as the last line of a rank that was
/// killed. Throws Failure, naming file and line, if a record is damaged.
void for_each_record(const std::filesystem::path& spool, const std::function<void(const Record&)>& each);
/// The same for step records alone.
void for_each_step(const std::filesystem::path& spool,
                   const std::function<void(const RecordHeader&, const StepRecord&)>& each);

}  // namespace babelring
