#include "nmt/train/setup/rank_part.h"

#include <numeric>

#include "nmt/comm/schedule/ring.h"

namespace babelring {

RankPart rank_part(const TrainConfig& config, const Communicator& communicator, std::int64_t micro_batch_tokens) {
  RankPart part{.rank = communicator.rank(), .world = communicator.size(), .micro_batch_tokens = micro_batch_tokens};
  if (!config.training.by_units()) return part;
  part.rank = ring_position(communicator.hosts(), communicator.rank()).position;
  part.units = config.training.units;
  return part;
}

std::vector<int> ranks_by_part(const TrainConfig& config, const Communicator& communicator) {
  if (config.training.by_units()) return ring_position(communicator.hosts(), communicator.rank()).order;
  std::vector<int> ranks(static_cast<std::size_t>(communicator.size()));
  std::iota(ranks.begin(), ranks.end(), 0);
  return ranks;
}

}  // namespace babelring
