#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "nmt/comm/collective.h"
#include "nmt/comm/mpi/handles.h"
#include "nmt/comm/mpi/message_sums.h"
#include "nmt/comm/schedule/ring.h"
#include "nmt/comm/shared/comm_memory.h"
#include "nmt/comm/shared/shared_all_reduce.h"

namespace babelring {

/// All-gather of bytes in place, round a ring: every rank sends its parts to its right neighbour and passes on what it
/// receives from its left one, until each has the parts of all.
class MpiAllGather final : public Collective {
 public:
  /// `parts` are the bytes of each position in the ring. No message is longer than `segment_bytes`. `tag` must be
  /// unique among the collectives in flight on `comm`.
  MpiAllGather(MPI_Comm comm, const RingPosition& ring, char* data, const PartsByPosition& parts, int tag,
               std::int64_t segment_bytes);

  void begin() override { post(); }
  Progress advance() override;
  std::string name() const override;
  std::int64_t bytes() const override { return bytes_; }
  std::int64_t payload_bytes() const override { return 0; }
  int waiting_for() const override { return left_; }

  /// Bytes that the rank at this position sends.
  static std::int64_t bytes_to_send(const RingPosition& ring, const PartsByPosition& parts);

 private:
  using Segments = std::vector<ElementRange>;
  void post();
  static bool finish(std::deque<MpiRequest>& requests, std::size_t& done);

  MPI_Comm comm_;
  int left_, right_, tag_;
  char* data_;
  std::int64_t bytes_ = 0;  // of all parts
  Segments sends_, receives_;
  std::size_t own_ = 0;  // of the sends, those of this rank's parts; the others pass on what was received, in its order
  std::deque<MpiRequest> sending_, receiving_;
  std::size_t sends_posted_ = 0, receives_posted_ = 0, sends_done_ = 0, receives_done_ = 0;
};

/// An all-gather between hosts by every rank of a host. Complete when all ranks of this host have received their parts,
/// so that each may read those of the others.
class HostGather final : public Collective {
 public:
  /// `own`: this rank's all-gather. `number`: the number of all-gathers started on `board` before this one.
  /// `local_ranks` names the board's ranks in messages.
  HostGather(std::unique_ptr<Collective> own, std::shared_ptr<const SharedBoard> board, std::int64_t number,
             std::vector<int> local_ranks)
      : own_(std::move(own)), board_(std::move(board)), number_(number), local_ranks_(std::move(local_ranks)) {}

  void begin() override { own_->begin(); }
  Progress advance() override;
  std::string name() const override { return own_->name(); }
  std::int64_t bytes() const override { return own_->bytes(); }
  std::int64_t payload_bytes() const override { return 0; }
  int waiting_for() const override;
  bool notified() const override { return received_; }

 private:
  std::unique_ptr<Collective> own_;
  std::shared_ptr<const SharedBoard> board_;
  std::int64_t number_;
  std::vector<int> local_ranks_;
  bool received_ = false, published_ = false;
};

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

  int host_count() const override { return parts_.messages.ring.ranks; }
  int position() const override { return parts_.messages.stripe_of(parts_.messages.ring.position); }
  int stripe_of(int position) const override {
    return (parts_.board == nullptr ? 0 : parts_.board->rank()) * host_count() + position;
  }
  void reduce_scatter_start(Tensor tensor, std::int64_t stripe) override;
  Buffer allocate_for_gathers(std::size_t bytes, const std::vector<ElementRange>& reserved) override;
  std::int64_t all_gather_start(Tensor tensor, const PartsByPosition& parts) override;
  void finish(std::int64_t all_gather) override { parts_.progress.wait(all_gather); }

 private:
  ElementRange local_part(std::int64_t count, std::int64_t stripe) const;

  Parts parts_;
  MemoryRegistry gathered_;
  std::int64_t all_gathers_ = 0;  // started on the board so far
};

}  // namespace babelring
