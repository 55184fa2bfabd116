#pragma once

#include <cstdint>
#include <vector>

#include "nmt/comm/collective.h"
#include "nmt/comm/communicator.h"
#include "nmt/core/parameters.h"
#include "nmt/core/shards.h"

namespace babelring {

/// How flat arrays are divided among the ranks of several hosts: in stripes, dealt out in turns to the hosts' ranks
/// with local index 0, then to the ranks with index 1, and so on, as HostExchange::reduce_scatter_start() does.
class HostShards {
 public:
  /// Collective. The communicator has a host_exchange() and must outlive the object. A bucket of about `bucket_bytes`
  /// of f32 gradients is one round of stripes.
  HostShards(Communicator& communicator, std::int64_t bucket_bytes);

  HostExchange& exchange() const { return *communicator_->host_exchange(); }
  int hosts() const { return exchange().host_count(); }
  std::int64_t stripe() const { return stripe_; }                         // elements
  std::int64_t round() const { return stripe_ * communicator_->size(); }  // elements of a stripe for each rank
  Shards own() const { return at(exchange().position()); }
  /// The shard of the rank with this rank's local index at `position`.
  Shards at(int position) const;
  /// The shard of any rank.
  Shards of_rank(int rank) const;
  /// The elements of `ranges` that the ranks with this rank's local index have.
  PartsByPosition parts_of(const std::vector<ElementRange>& ranges) const;
  /// Gathers parts of a tensor in memory from HostExchange::allocate_for_gathers() and waits for them.
  void gather(Tensor tensor, const PartsByPosition& parts) const;

 private:
  Communicator* communicator_;
  std::int64_t stripe_;
  std::vector<int> stripes_;  // of the ranks: the number of each one's first stripe
};

/// Gathers the weights that passes read after each host has updated its shard: compute copies, and masters that are
/// read as f32. They travel in buckets in the order of a forward pass, which can begin before all have arrived.
/// Collective: every rank makes the same calls. All functions may throw CommError.
class WeightsGather {
 public:
  /// The store must outlive the object.
  WeightsGather(const HostShards& shards, const ParameterStore& store);

  /// Sends what this rank has updated. Until a parameter has arrived, nobody may read it, and until finish() nobody may
  /// write weights.
  void start();
  /// True if this rank knows that the parameter has arrived. Does not wait or poll.
  bool has(const Parameter& parameter) const { return last_bucket(parameter) < arrived_; }
  /// Waits until the parameter has arrived on all ranks of this host.
  void wait_for(const Parameter& parameter);
  /// Waits for all weights.
  void finish();

 private:
  struct Bucket {
    PartsByPosition parts;
    std::int64_t all_gather = 0;  // number of the last one
  };
  std::size_t last_bucket(const Parameter& parameter) const;
  void wait_for_bucket(std::size_t bucket);

  HostShards shards_;
  const ParameterStore& store_;
  PartsByPosition read_as_f32_;  // masters of these, if others have copies
  std::vector<Bucket> buckets_;
  std::size_t arrived_;  // number of buckets
};

}  // namespace babelring
