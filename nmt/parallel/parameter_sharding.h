#pragma once

#include <functional>
#include <memory>

#include "nmt/comm/communicator.h"
#include "nmt/core/parameters.h"
#include "nmt/core/shards.h"
#include "nmt/ops/backend.h"
#include "nmt/parallel/gradient_reducer.h"

namespace babelring {

/// Decides how the ranks of a run hold weights and Adam moments, and which elements each rank updates. CPU ranks that
/// share memory keep one copy on each host: each rank updates its own shard, and all ranks of the host read the result.
/// Otherwise every rank has a full copy in its backend's memory and performs the same update. From the same gradients
/// both give bit-identical results. Collective: every rank makes the same calls.
class ParameterSharding {
 public:
  /// Both must outlive the object.
  ParameterSharding(Backend& backend, Communicator& communicator);

  /// Allocates memory for weights or moments: the shared copy, which each rank's ledger counts, or this rank's.
  Buffer allocate(std::size_t bytes, MemoryPurpose purpose) const;
  /// Allocators for a ParameterStore. Weights come from allocate(). Gradients come from the communicator if it can
  /// reduce the backend's memory, otherwise from the backend.
  ParameterMemory parameter_memory() const;
  /// The shard that this rank updates in a flat array of `count` elements. Divided if the ranks of a host share a copy.
  Shards local_shard(std::int64_t count) const;
  /// True if all ranks of the run share one copy. Gradients are then summed in a rank's own shard only.
  bool single_copy() const;

  /// Creates the matching gradient sum for `store`, which was allocated with parameter_memory(). `bucket_bytes` applies
  /// to ranks with full copies. `shared_table`: the table shared by both embeddings and the output projection, or null.
  /// `order`: the communicator's.
  std::unique_ptr<GradientReducer> make_reducer(const ParameterStore& store, std::int64_t bucket_bytes,
                                                const Parameter* shared_table, AddOrder order) const;

  /// Runs `write` once for each copy of the model: on the first rank of a host that shares one, else on every rank.
  /// `write` must set the same values on all ranks. Returns after the new values are visible to every rank.
  void write(const std::function<void()>& write) const;
  /// Waits until every rank has written its shard. Before the next write there must be another collective that each
  /// rank enters after its last read of other shards. In an update, the gradient sum is such a collective.
  void release_writes() const;
  /// Broadcasts rank 0's tensor to all other copies.
  void broadcast(Tensor tensor) const;

 private:
  /// True if the communicator reduces the kind of memory (host or device) that holds the gradients.
  bool communicator_reduces() const;

  Backend& backend_;
  Communicator& communicator_;
  bool shared_copy_;
};

}  // namespace babelring
