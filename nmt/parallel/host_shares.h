#pragma once

#include <cstdint>
#include <vector>

#include "nmt/comm/communicator.h"
#include "nmt/comm/host_exchange.h"
#include "nmt/core/shards.h"

namespace babelring {

/// How flat arrays are divided among the ranks of several hosts: in stripes, dealt out in turns to the hosts' ranks
/// with local index 0, then to the ranks with index 1, and so on, as HostExchange::reduce_scatter_start() does.
class HostShares {
 public:
  /// Collective. The communicator has a host_exchange() and must outlive the object. A bucket of about `bucket_bytes`
  /// of f32 gradients is one round of stripes.
  HostShares(Communicator& communicator, std::int64_t bucket_bytes);

  HostExchange& exchange() const { return *communicator_->host_exchange(); }
  int hosts() const { return exchange().host_count(); }
  std::int64_t stripe() const { return stripe_; }                         // elements
  std::int64_t round() const { return stripe_ * communicator_->size(); }  // elements of a stripe for each rank
  Shards own() const { return at(exchange().place()); }
  /// The shard of the rank with this rank's local index at `place`.
  Shards at(int place) const;
  /// The shard of any rank.
  Shards of_rank(int rank) const;
  /// The elements of `ranges` that the ranks with this rank's local index have.
  PartsByPlace parts_of(const std::vector<ElementRange>& ranges) const;
  /// Gathers parts of a tensor in memory from HostExchange::allocate_for_gathers() and waits for them.
  void gather(Tensor tensor, const PartsByPlace& parts) const;

 private:
  Communicator* communicator_;
  std::int64_t stripe_;
  std::vector<int> stripes_;  // of the ranks: the number of each one's first stripe
};

}  // namespace babelring
