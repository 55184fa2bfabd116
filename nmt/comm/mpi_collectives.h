#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "nmt/comm/collective.h"
#include "nmt/comm/mpi_handles.h"

namespace babelring {

/// One of MPI's own nonblocking collectives, or several one after another. Its stages own what they read and write, but
/// for the memory that keep() was given.
class MpiCollective final : public Collective {
 public:
  /// Starts a stage; returns MPI's code.
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

/// MPI_Iallreduce in place. Throws Failure if `count` exceeds MPI's int.
MpiCollective mpi_all_reduce(MPI_Comm comm, float* data, std::int64_t count);

/// Fills in the other ranks' parts of `values`, of equal size, in rank order; the own one is there.
MpiCollective mpi_gather_doubles(MPI_Comm comm, std::shared_ptr<std::vector<double>> values, int ranks);

/// What mpi_gather_texts takes and fills: the texts end to end, and where each begins.
struct GatheredTexts {
  std::string own;
  std::vector<int> sizes, offsets;
  std::string bytes;
};
/// Throws CommError when the texts exceed 2 GiB together.
MpiCollective mpi_gather_texts(MPI_Comm comm, std::shared_ptr<GatheredTexts> texts, int rank, int ranks);

/// At most 2^31 - 1 bytes.
MpiCollective mpi_broadcast(MPI_Comm comm, std::shared_ptr<std::string> bytes, int root);

MpiCollective mpi_barrier(MPI_Comm comm);

}  // namespace babelring
