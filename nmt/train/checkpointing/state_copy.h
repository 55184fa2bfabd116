#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "nmt/checkpoint/shard.h"
#include "nmt/train/update/model_replica.h"

namespace babelring {

/// A copy of a shard's weights and moments in host memory.
class StateCopy {
 public:
  /// Copies the shard at `place`; absent: nothing. Collective if the optimizer is sharded: each rank calls it.
  StateCopy(const ModelReplica& replica, std::optional<ShardPlace> place);
  /// Takes part in the copies of other ranks and copies nothing. Collective like them.
  static void help(const ModelReplica& replica) { const StateCopy nothing(replica, std::nullopt); }

  /// By parameter name; that of a moment begins with "m." or "v.". Valid until the copy, or the object it is moved
  /// to, is destroyed.
  const std::vector<NamedTensor>& weights() const { return weights_; }
  const std::vector<NamedTensor>& moments() const { return moments_; }

 private:
  /// A flat array in parts, whose values are in the backend's memory.
  using ReadPart = std::function<void(const ElementRange& part, ConstTensor values)>;
  void copy(const ModelReplica& replica, ParameterRange range, const std::string& prefix,
            const std::function<void(const ReadPart&)>& read, std::vector<NamedTensor>& tensors);

  // The shard's range of the flat arrays of weights, first and second moments, with padding.
  std::vector<std::unique_ptr<float[]>> values_;
  std::vector<NamedTensor> weights_, moments_;
};

}  // namespace babelring
