#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "nmt/comm/collective.h"
#include "nmt/comm/communicator.h"
#include "nmt/comm/mpi/handles.h"
#include "nmt/core/buffer.h"

namespace babelring {

/// A sequence of one or more nonblocking MPI collectives ("stages"), run one after another. The stages own the memory
/// they use, except memory passed to keep().
class MpiCollective final : public Collective {
 public:
  /// Starts a stage with the given request; returns the MPI error code.
  using Stage = std::function<int(MPI_Request*)>;
  MpiCollective(std::string name, std::int64_t bytes, std::vector<Stage> stages)
      : name_(std::move(name)), bytes_(bytes), stages_(std::move(stages)) {}

  void begin() override { start_stage(); }
  Progress advance() override;
  std::string name() const override { return name_; }
  std::int64_t bytes() const override { return bytes_; }

 private:
  void start_stage();
  std::string name_;
  std::int64_t bytes_;
  std::vector<Stage> stages_;
  std::size_t stage_ = 0;
  MpiRequest request_;
};

/// Memory for the results of mpi_all_reduce(). It is kept, because new memory costs a page fault for every page.
class ResultPool {
 public:
  /// Returns at least `bytes` bytes.
  Buffer take(std::size_t bytes);
  void give_back(Buffer buffer) { spare_.push_back(std::move(buffer)); }

 private:
  std::vector<Buffer> spare_;
};

/// MPI_Iallreduce into memory of `pool`, then a copy to `data`: in place (MPI_IN_PLACE) Open MPI sums along a binomial
/// tree, and otherwise, from 64 KiB and four ranks on, by a reduce-scatter and an all-gather (libnbc,
/// nbc_iallreduce.c), which send fewer bytes. Throws Failure if `count` exceeds the range of int. `pool` must outlive
/// the collective.
MpiCollective mpi_all_reduce(MPI_Comm comm, float* data, std::int64_t count, ResultPool& pool);

/// All-gather of equal parts. `values` holds one part per rank, in rank order; this rank's part must be set, the others
/// are filled in.
MpiCollective mpi_gather_doubles(MPI_Comm comm, std::shared_ptr<std::vector<double>> values, int ranks);

MpiCollective mpi_barrier(MPI_Comm comm);

std::int64_t bytes_sent_by(int rank, const std::vector<Transfer>& transfers);
/// This rank's part of the transfers: messages of at most 4 MiB, in the order of `transfers`, which is the same on all
/// ranks. Up to 64 of them, of about 8 MiB, are in flight, so that a rank which receives from many does not wait for
/// one after the other. No two ranks wait for each other: the first message in the order that is not complete is in
/// flight on both its ranks.
class MpiTransfers final : public Collective {
 public:
  /// `tag` must be unique among the transfers in flight on `comm`, because two collectives may send between the same
  /// ranks at once.
  MpiTransfers(MPI_Comm comm, int tag, const std::vector<Transfer>& transfers, int rank);

  void begin() override { post(); }
  Progress advance() override;
  std::string name() const override;
  /// Does not count towards the bytes in flight: it travels beside all-reduces, which must not wait for it.
  std::int64_t bytes() const override { return 0; }
  /// The sender of the first message that has not arrived; -1 if only sends are in flight.
  int waiting_for() const override;

 private:
  struct Message {
    std::shared_ptr<Buffer> memory;
    std::int64_t begin = 0;
    int bytes = 0, peer = 0;
    bool sends = false;
    MpiRequest request;
  };
  void post();

  MPI_Comm comm_;
  int tag_;
  std::int64_t total_bytes_ = 0;  // of all ranks
  std::deque<Message> waiting_, in_flight_;
  std::int64_t bytes_in_flight_ = 0;
};

/// `count` round trips between rank 0 and each other rank in turn, then a barrier. `trips` receives this rank's: it has
/// `count` entries, on rank 0 none. `tag` must be unique among the collectives in flight on `comm`.
MpiCollective mpi_round_trips(MPI_Comm comm, int tag, std::shared_ptr<std::vector<RoundTrip>> trips, int count,
                              int rank, int ranks);

}  // namespace babelring
