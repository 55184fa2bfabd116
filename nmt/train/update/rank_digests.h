#pragma once

#include <cstdint>
#include <string>

#include "base/failure.h"
#include "nmt/train/update/model_replica.h"

namespace babelring {

/// The ranks' weights differ, although all performed the same updates. Thrown on every rank.
class RanksDiffer : public Failure {
 public:
  using Failure::Failure;
};

/// SHA-256 of the weights, compared over all ranks. Ranks that share one copy hash it once, on the first of them.
struct RankDigest {
  std::string weights;     // this rank's, as 64 hexadecimal digits
  std::string difference;  // one line that names update, parameters and ranks, equal on all ranks; empty: no difference
};

/// Collective.
RankDigest digest_over_ranks(const ModelReplica& replica, std::int64_t update);

}  // namespace babelring
