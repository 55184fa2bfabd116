#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "nmt/comm/communicator.h"
#include "nmt/core/parameters.h"
#include "nmt/core/shards.h"
#include "nmt/ops/backend.h"
#include "nmt/optim/adam.h"
#include "nmt/parallel/comm_config.h"
#include "nmt/parallel/gradient_reducer.h"
#include "nmt/parallel/weights_gather.h"

namespace babelring {

/// Decides how the ranks of a run hold weights and Adam moments, and which elements each rank updates. CPU ranks that
/// share memory keep one copy on each host: each rank updates its own shard, and all ranks of the host read the result.
/// Otherwise every rank has a full copy in its backend's memory and performs the same update. From the same gradients
/// both give bit-identical results. Collective: every rank makes the same calls.
///
/// With communication.optimizer sharded each rank keeps the moments of its shard only, and a host the masters of its
/// ranks' shards: the flat array has its full size, but no memory for the masters of other hosts. A GPU keeps all
/// masters, and updates those of its shard. After a step WeightsGather gathers what passes read; read_masters() gathers
/// the other masters.
class ParameterSharding {
 public:
  /// Backend and communicator must outlive the object. `gradient_bytes`: of the model's f32 gradients. Throws
  /// UsageFailure if `config` demands what these ranks cannot do. Collective.
  ParameterSharding(Backend& backend, Communicator& communicator, const CommConfig& config,
                    std::int64_t gradient_bytes);

  /// True if each host, or each GPU, keeps a shard of the optimizer's state.
  bool shards_optimizer() const { return shards_.has_value(); }
  /// True if the ranks of a host have one copy of the model.
  bool shares_copy() const { return shared_copy_; }
  /// True if all ranks of the run have one copy. Gradients are then summed in a rank's own shard only.
  bool single_copy() const;
  /// Log line about communication.optimizer sharded; empty otherwise.
  const std::string& line() const { return line_; }

  /// Allocates memory for weights or moments: the shared copy, which each rank's ledger counts, or this rank's.
  Buffer allocate(std::size_t bytes, MemoryPurpose purpose) const;
  /// Allocates a moment of zeros for `size` elements: of the shared copy, or with a sharded optimizer of this rank's
  /// shard.
  Moment allocate_moment(std::int64_t size) const;
  /// Allocators for a ParameterStore. Weights come from allocate(). Gradients come from the communicator if it can
  /// reduce the backend's memory, otherwise from the backend.
  ParameterMemory parameter_memory() const;
  /// The shard of a rank if the optimizer is sharded.
  Shards shard_of(int rank) const { return shards_->of_rank(rank); }
  /// The shard that this rank updates in a flat array of `count` elements. Divided if the ranks of a host have one copy
  /// or the optimizer is sharded.
  Shards own_shard(std::int64_t count) const;
  /// Bytes of gradients that are scattered as one message if the optimizer is sharded.
  std::int64_t scattered_bytes() const;

  /// Creates the matching gradient sum for `store`, which was allocated with parameter_memory(). `bucket_bytes` applies
  /// to ranks with full copies. `shared_table`: the table shared by both embeddings and the output projection, or null.
  /// `order`: the communicator's.
  std::unique_ptr<GradientReducer> make_reducer(const ParameterStore& store, std::int64_t bucket_bytes,
                                                const Parameter* shared_table, AddOrder order) const;

  /// Runs `write` once for each copy of the model: on the first rank of a host that has one, else on every rank.
  /// `write` must set the same values on all ranks. Returns after the new values are visible to every rank.
  void write(const std::function<void()>& write) const;
  /// Makes the weights that each rank has updated visible to the ranks with the same copy. Before the next write there
  /// must be another collective that each rank enters after its last read of other shards. In an update, the gradient
  /// sum is such a collective. If the optimizer is sharded, WeightsGather does it, and this does nothing.
  void publish() const;
  /// Null unless the optimizer is sharded. The store must outlive the result.
  std::unique_ptr<WeightsGather> make_weights_gather(const ParameterStore& store) const;
  /// Broadcasts rank 0's tensor to all other copies.
  void broadcast(Tensor tensor) const;

  /// Sets the moment to rank 0's `values`, a value for each element. Other ranks pass none.
  void write_moment(const Moment& moment, const std::vector<float>& values) const;

  /// Runs `read` while the store's masters are whole on every rank. `read` may be collective.
  void read_masters(const ParameterStore& store, const std::function<void()>& read) const;
  /// Gives the memory back that masters take for what other hosts keep. Call it after all masters were written.
  void drop_other_masters(const ParameterStore& store) const;

 private:
  /// True if hosts keep shards of arrays that lie in memory of their ranks.
  bool shares_host_memory() const { return shards_ && backend_.host_memory(); }
  bool sharding_changes_no_bit() const;
  /// True if the communicator reduces the kind of memory (host or device) that holds the gradients.
  bool communicator_reduces() const;
  void choose_shards(const CommConfig& config, std::int64_t gradient_bytes);
  Buffer allocate_share(std::size_t bytes, MemoryPurpose purpose) const;
  void release_writes() const;
  std::vector<ElementRange> masters_on_demand(const ParameterStore& store) const;

  Backend& backend_;
  Communicator& communicator_;
  bool shared_copy_;
  std::optional<HostShards> shards_;  // absent: every host keeps everything
  std::string line_;
};

}  // namespace babelring
