#pragma once

#include <string>

#include "insight/predict/rank_record.h"
#include "nmt/ops/emulated/emulated_backend.h"

namespace babelring {

/// The times of a record for the backend of rank `rank`; each rank draws its own jitter. Messages call the record
/// `file`. Throws UsageFailure if the record has no times of ops, as one made from a table, or was made of
/// another model, task or precision than `run`.
EmulatedTimes emulated_times(const insight::RankRecord& record, const std::string& file,
                             const insight::RecordedModel& run, int rank);

}  // namespace babelring
