#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "nmt/comm/collective.h"
#include "nmt/comm/communicator.h"
#include "nmt/comm/mpi_handles.h"

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

/// MPI_Iallreduce in place. Throws Failure if `count` exceeds the range of int.
MpiCollective mpi_all_reduce(MPI_Comm comm, float* data, std::int64_t count);

/// All-gather of equal parts. `values` holds one part per rank, in rank order; this rank's part must be set, the others
/// are filled in.
MpiCollective mpi_gather_doubles(MPI_Comm comm, std::shared_ptr<std::vector<double>> values, int ranks);

MpiCollective mpi_barrier(MPI_Comm comm);

std::int64_t bytes_sent_by(int rank, const std::vector<Transfer>& transfers);
/// This rank's part of the transfers: one message after another, in the order of `transfers`, which is the same on all
/// ranks, so that no two ranks wait for each other.
MpiCollective mpi_transfers(MPI_Comm comm, const std::vector<Transfer>& transfers, int rank);

/// `count` round trips between rank 0 and each other rank in turn, then a barrier. `trips` receives this rank's: it has
/// `count` entries, on rank 0 none.
MpiCollective mpi_round_trips(MPI_Comm comm, std::shared_ptr<std::vector<RoundTrip>> trips, int count, int rank,
                              int ranks);

}  // namespace babelring
