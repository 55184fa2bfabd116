#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <vector>

#include "nmt/comm/shared/comm_memory.h"
#include "nmt/comm/host_exchange.h"
#include "nmt/comm/mpi/message_sums.h"
#include "nmt/comm/shared/shared_all_reduce.h"

namespace babelring {

/// HostExchange over MPI messages; on hosts with several ranks also through their shared memory.
class MpiHostExchange final : public HostExchange {
 public:
  /// Members of the communicator, which outlives the object.
  struct Parts {
    MpiProgress& progress;
    MessageSums messages;                // over hosts
    std::shared_ptr<SharedBoard> board;  // null: one rank on each host
    std::vector<int> local_ranks;        // the ranks of this rank's host
    std::int64_t segment_bytes;
    const MemoryRegistry& summed;  // memory from allocate()
    std::function<std::shared_ptr<CommMemory>(std::size_t bytes, const std::vector<ElementRange>& reserved)> allocate;
    std::int64_t& shared_all_reduces;  // started on the board so far
    std::atomic<std::int64_t>& bytes_sent;
  };
  explicit MpiHostExchange(Parts parts) : parts_(std::move(parts)) {}

  int host_count() const override { return parts_.messages.place.ranks; }
  int place() const override { return parts_.messages.stripe_of(parts_.messages.place.position); }
  int stripe_of(int place) const override {
    return (parts_.board == nullptr ? 0 : parts_.board->rank()) * host_count() + place;
  }
  void reduce_scatter_start(Tensor tensor, std::int64_t stripe) override;
  Buffer allocate_for_gathers(std::size_t bytes, const std::vector<ElementRange>& reserved) override;
  std::int64_t all_gather_start(Tensor tensor, const PartsByPlace& parts) override;
  void finish(std::int64_t all_gather) override { parts_.progress.wait(all_gather); }

 private:
  ElementRange local_part(std::int64_t count, std::int64_t stripe) const;

  Parts parts_;
  MemoryRegistry gathered_;
  std::int64_t all_gathers_ = 0;  // started on the board so far
};

}  // namespace babelring
