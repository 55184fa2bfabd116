#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/failure.h"
#include "nmt/core/buffer.h"
#include "nmt/core/tensor.h"

namespace babelring {

class Collective;

/// A peer is lost or a deadline passed. The message names rank, host, collective and how long it waited. The
/// communicator is unusable afterwards: log the message and call abort_mpi().
class CommError : public Failure {
 public:
  using Failure::Failure;
};

struct CommTotals {
  /// Of this rank's all-reduces: 2 (n-1)/n of the payload, in the wire's type. In shared memory nothing is sent; what
  /// this rank reads from and writes to the others' memory, which is as much, counts instead.
  std::int64_t bytes_sent = 0;
  double busy_ms = 0;  // time in which at least one collective was in progress
};

/// Collectives among the ranks of one run. Every rank calls the same ones in the same order, from one thread; only
/// fail_fast() and totals() may be called from others. All throw CommError.
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

  /// Zeroed memory for all-reduces. Blocking; every rank asks for the same number of bytes. Collectives in flight keep
  /// the memory even if its Buffer is dropped, for example by an exception. It may outlive the communicator.
  virtual Buffer allocate(std::size_t bytes) = 0;
  /// Sums `tensor` (f32, contiguous, in memory of allocate(), at the same place on all ranks) over ranks in place, in
  /// the background. Several may be in flight; they complete in order. Nobody else touches it until
  /// all_reduce_finish(). Bit-equal on all ranks. Throws Failure on other tensors.
  virtual void all_reduce_start(Tensor tensor) = 0;
  /// Waits for every all-reduce started and every operation followed. On a GPU the caller does not wait, but the work
  /// given to the backend next does; a failure is then thrown by the next collective.
  virtual void all_reduce_finish() = 0;
  /// Whether all-reduces work on a GPU's memory; allocate() returns such memory then.
  virtual bool device_memory() const { return false; }
  /// Watches an operation that runs elsewhere, on GPUs, as if it were a collective: lost peers, the deadline and
  /// fail_fast() fail it too. Every rank follows the same operations in the same order. Throws Failure where this is
  /// not supported.
  virtual void follow(std::unique_ptr<Collective> operation);

  /// Whether all ranks are on one machine and can map each other's memory. The next two functions need that, and throw
  /// Failure otherwise.
  virtual bool shares_memory() const { return false; }
  /// Zeroed memory common to all ranks: what one writes the others see, after the next collective at the latest.
  /// Blocking; every rank asks for the same number of bytes. Not for all-reduces. Freed when no rank has its Buffer any
  /// more.
  virtual Buffer allocate_common(std::size_t bytes);
  /// Each rank's counterpart of `tensor` (in memory of allocate()), in rank order. Another rank's may be read after a
  /// collective that it entered when it had written it, until it enters the next.
  virtual std::vector<ConstTensor> on_all_ranks(Tensor tensor) const;

  /// Blocking. Sums doubles over ranks, in rank order: the same bits on all. The size is the same on all ranks.
  virtual void sum(std::vector<double>& values) = 0;
  /// Blocking. Every rank's text on every rank, in rank order.
  virtual std::vector<std::string> all_gather(const std::string& text) = 0;
  /// Blocking. Copies rank `root`'s bytes to all.
  virtual void broadcast(void* data, std::size_t bytes, int root) = 0;
  virtual void barrier() = 0;

  /// From now on a peer that gives no sign of life for `silence` while a collective waits fails it at once; one that
  /// is alive and merely late still has the whole deadline. For SIGTERM, which mpirun sends to all ranks a second
  /// before SIGKILL when one has died: 300 ms leave time to name the dead. From any thread or a signal handler, but not
  /// once the communicator is being destroyed.
  virtual void fail_fast(std::chrono::milliseconds silence) = 0;

  /// Since the start.
  virtual CommTotals totals() const = 0;
  /// One line for the log: transport, algorithm, deadline.
  virtual std::string description() const = 0;
};

enum class AllReduceAlgorithm {
  automatic,      // shared_memory if all ranks are on one host that allows it, else ring
  shared_memory,  // each rank sums a share in place, straight from the others' memory; one host only
  ring,           // our own, over point-to-point messages
  mpi,            // MPI_Iallreduce
};

/// How gradients travel in messages. With bf16 half as many bytes: every partial sum a rank passes on is rounded, added
/// in f32 and rounded again by the next, and the complete sum is rounded once more, on all ranks alike. These are n
/// roundings on n ranks, each of at most 2^-8 of the partial sum: |error| <= n 2^-8 (sum over ranks of |value|) to
/// first order; typically a root of n instead of n. In shared memory nothing travels, and sums are f32 whatever is
/// asked for.
enum class GradientWire { f32, bf16 };

struct CommOptions {
  AllReduceAlgorithm algorithm = AllReduceAlgorithm::automatic;
  GradientWire wire = GradientWire::f32;        // bf16 is not for the algorithm mpi
  std::chrono::milliseconds deadline{120'000};  // a collective fails after so long without any progress
  /// Pieces a ring step is cut into, so that sending and adding overlap. With its header a piece has to stay below
  /// Open MPI's eager limit of 64 KiB on TCP: larger ones are sent only after a question and an answer, which wait
  /// behind the data of both directions, and then a link of 1 Gbit/s works at 0.5 to 0.65 of its rate instead of 0.95.
  std::int64_t segment_bytes = 60 * 1024;
  /// Payload of the all-reduces in flight at once; one always may be. Enough to keep both directions of a link busy,
  /// and no more, because the communication thread polls each one in flight.
  std::int64_t in_flight_bytes = 16 << 20;
};

/// One rank: nothing moves.
std::unique_ptr<Communicator> make_single_communicator();

/// All ranks of MPI_COMM_WORLD. Throws Failure if options.algorithm is shared_memory and they cannot share, or if it is
/// mpi and the wire bf16. MPI must have been initialised with MPI_THREAD_MULTIPLE by the caller (MpiSession), who
/// finalises it after the communicator is gone. One thread of its own does all MPI calls. Destroyed with collectives in
/// flight (an exception on its way), it leaves them and never blocks: end with abort_mpi() then.
std::unique_ptr<Communicator> make_mpi_communicator(const CommOptions& options);

/// Ends the whole job at once, after a CommError or any other failure of one rank: tells mpirun to end all ranks
/// (MPI_Abort), so that a stopped or lost peer cannot hold anyone up; if that blocks, the process ends itself after two
/// seconds and mpirun ends the others. Flushes stdio, runs no destructors, does not return.
[[noreturn]] void abort_mpi(int exit_code);

}  // namespace babelring
