#pragma once

#include <memory>
#include <vector>

#include "nmt/checkpoint/shard.h"
#include "nmt/train/update/model_replica.h"

namespace babelring {

/// A copy of a shard's weights and moments in host memory.
class StateCopy {
 public:
  StateCopy(const ModelReplica& replica, ShardPlace place);

  /// By parameter name; that of a moment begins with "m." or "v.". Valid as long as the copy, also once it is moved.
  const std::vector<NamedTensor>& weights() const { return weights_; }
  const std::vector<NamedTensor>& moments() const { return moments_; }

 private:
  void copy(const ModelReplica& replica, ParameterRange range, ConstTensor flat, const std::string& prefix,
            std::vector<NamedTensor>& tensors);

  std::vector<std::unique_ptr<float[]>> values_;  // of each flat array, with its padding
  std::vector<NamedTensor> weights_, moments_;
};

}  // namespace babelring
