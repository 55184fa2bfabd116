#pragma once

#include <vector>

#include "nmt/ops/backend.h"
#include "nmt/train/setup/config.h"
#include "worker/rank_agreement.h"

namespace babelring {

/// The values that must agree on all ranks for their gradients to be summed. Throws Failure if data.folder has no
/// manifest.
std::vector<RankFact> facts_of(const TrainConfig& config, const Backend& backend);

}  // namespace babelring
