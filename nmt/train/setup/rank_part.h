#pragma once

#include <vector>

#include "nmt/comm/communicator.h"
#include "nmt/data/update_source.h"
#include "nmt/train/setup/config.h"

namespace babelring {

/// A rank's part of each update. With training.reproducible ranks it holds the units of the rank's position in the tree
/// in which the communicator adds ranks (AddOrder::tree).
RankPart rank_part(const TrainConfig& config, const Communicator& communicator, std::int64_t micro_batch_tokens);

/// The ranks in the order of RankPart::rank.
std::vector<int> ranks_by_part(const TrainConfig& config, const Communicator& communicator);

}  // namespace babelring
