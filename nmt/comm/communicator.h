#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "nmt/base/failure.h"
#include "nmt/core/tensor.h"

namespace babelring {

/// A peer is lost or a deadline passed. The message names rank, host, collective and how long it waited. The
/// communicator is unusable afterwards.
class CommError : public Failure {
 public:
  using Failure::Failure;
};

struct CommTotals {
  std::int64_t bytes_sent = 0;  // by this rank, by the algorithm's model (ring: 2 (n-1)/n of the payload)
  double busy_ms = 0;           // time in which at least one collective was in progress
};

/// Collectives among the ranks of one run. Every rank calls the same ones in the same order, from one thread.
/// All throw CommError.
class Communicator {
 public:
  virtual ~Communicator() = default;
  virtual int rank() const = 0;
  virtual int size() const = 0;
  /// Host name of each rank.
  virtual const std::vector<std::string>& hosts() const = 0;
  /// Index of this rank among the ranks of its host, and how many they are.
  virtual int local_rank() const = 0;
  virtual int local_size() const = 0;

  /// Sums `tensor` (f32, contiguous) over ranks in place, in the background. Several may be in flight; they complete in
  /// order. The memory belongs to the communicator until all_reduce_finish(). Bit-equal on all ranks.
  virtual void all_reduce_start(Tensor tensor) = 0;
  /// Waits for every all-reduce started.
  virtual void all_reduce_finish() = 0;

  /// Blocking. Sums doubles over ranks, in rank order: the same bits on all.
  virtual void sum(std::vector<double>& values) = 0;
  /// Blocking. Every rank's text on every rank, in rank order.
  virtual std::vector<std::string> all_gather(const std::string& text) = 0;
  /// Blocking. Copies rank `root`'s bytes to all.
  virtual void broadcast(void* data, std::size_t bytes, int root) = 0;
  virtual void barrier() = 0;

  /// Since the start.
  virtual CommTotals totals() const = 0;
  /// One line for the log: transport, algorithm, deadline.
  virtual std::string description() const = 0;
};

enum class AllReduceAlgorithm { ring, mpi };  // ring: our own over point-to-point messages; mpi: MPI_Iallreduce

struct CommOptions {
  AllReduceAlgorithm algorithm = AllReduceAlgorithm::ring;
  std::chrono::milliseconds deadline{120'000};  // of one collective
  std::int64_t segment_bytes = 1 << 20;         // pieces a ring step is cut into, so that sending and adding overlap
};

/// One rank: nothing moves.
std::unique_ptr<Communicator> make_single_communicator();

/// All ranks of MPI_COMM_WORLD. MPI must have been initialised with MPI_THREAD_MULTIPLE by the caller, who finalises it
/// after the communicator is gone. One thread of its own does all MPI calls.
std::unique_ptr<Communicator> make_mpi_communicator(const CommOptions& options);

/// Ends this process group at once after a CommError: tells mpirun to end all ranks (MPI_Abort), so that a stopped or
/// lost peer cannot keep anyone. Does not return.
[[noreturn]] void abort_mpi(int exit_code);

}  // namespace babelring
