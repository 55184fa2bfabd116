#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "insight/predict/predict.h"

namespace babelring {

/// The updates of a real plan.
struct PlannedSizes {
  std::vector<insight::UpdateSizes> sizes = {};  // target tokens of each rank's micro-batch, for the first updates
  std::int64_t updates_per_epoch = 0;
};

/// Plans updates of `tokens` target tokens for each rank's micro-batch on the training set of a prepared folder, and
/// returns the sizes of the first `updates` (at most an epoch). Throws Failure, UsageFailure.
PlannedSizes plan_sizes(const std::string& folder, double tokens, int ranks, int accumulate, std::int64_t updates);

}  // namespace babelring
