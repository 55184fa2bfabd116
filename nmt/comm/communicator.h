#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/failure.h"
#include "nmt/comm/sums.h"
#include "nmt/core/buffer.h"
#include "nmt/core/tensor.h"

namespace babelring {

class CollectiveTracker;
class HostExchange;

/// A peer was lost or a deadline expired. The message names the rank, its host, the collective and the time waited. The
/// communicator is unusable afterwards: log the message and call abort_mpi().
class CommError : public Failure {
 public:
  using Failure::Failure;
};

struct CommTotals {
  /// Bytes this rank sent in transfers and all-reduces: 2 (n-1)/n of an all-reduce's payload in the wire type, for n
  /// ranks (MpiTree: see there).
  /// On two levels the payload is this rank's shard of it and n the number of hosts. Shared memory sends no messages;
  /// there, the same formula counts the bytes read from and written to the other ranks' memory.
  std::int64_t bytes_sent = 0;
  double busy_ms = 0;  // time with at least one collective in progress
};

/// When this rank took part in a collective, by its own clock.
struct CommSpan {
  std::string name;                     // as in messages: "all-reduce of 26.2 MB"
  std::int64_t number = 0;              // position in the sequence of all collectives; equal on all ranks
  std::int64_t bytes = 0;               // payload of an all-reduce, equal on all ranks; 0: another collective
  SteadyClock::time_point asked;        // when the caller started it
  SteadyClock::time_point begun, done;  // when its first message was posted, and when it was complete
};

/// A message to rank 0 and rank 0's answer.
struct RoundTrip {
  SteadyClock::time_point sent, received;  // by the clock of the rank that sent the message
  SteadyClock::time_point answered;        // by rank 0's clock
};

/// Bytes that one rank gives another. `memory` holds them: on rank `from` those to send, on rank `to` those received.
/// Other ranks need none.
struct Transfer {
  int from = 0, to = 0;
  std::int64_t bytes = 0;
  std::shared_ptr<Buffer> memory;
};

/// Messages between two ranks, beside all-reduces. All ranks make the same calls.
class TransferChannel {
 public:
  virtual ~TransferChannel() = default;
  /// Starts the transfers, in this order, and returns at once. All ranks pass the same ones, apart from their memory,
  /// which lies on the host and must not be accessed before Communicator::all_reduce_finish().
  virtual void start(const std::vector<Transfer>& transfers) = 0;
};

/// Measures collectives and clocks for a timeline.
class CommTracer {
 public:
  virtual ~CommTracer() = default;
  /// Starts or ends the recording of collectives that begin after this call, and drops the spans recorded so far.
  /// While it is on, call take_spans() now and then: the list grows.
  virtual void record_spans(bool on) = 0;
  /// Returns and forgets the spans of completed collectives, in the order of their numbers.
  virtual std::vector<CommSpan> take_spans() = 0;
  /// Blocking; all ranks pass the same `count`. Every other rank in turn exchanges `count` messages with rank 0.
  /// Returns this rank's round trips; rank 0 has none.
  virtual std::vector<RoundTrip> round_trips(int count) = 0;
};

/// Memory of the ranks of a host that each of them can read and write.
class SharedArrays {
 public:
  virtual ~SharedArrays() = default;
  /// Allocates zeroed memory of which all ranks of the host see one copy. A write is visible to these ranks after the
  /// next collective at the latest. Blocking; all ranks of all hosts must request the same size. Must not be used for
  /// all-reduces. Freed when the last rank destroys its Buffer. Throws Failure if memory is short, and CommError.
  virtual Buffer allocate_common(std::size_t bytes) = 0;
  /// Views of `tensor` on every rank of the host, in rank order. `tensor` must lie in memory from
  /// Communicator::allocate(); throws Failure otherwise. A rank's values may be read after a collective that it entered
  /// after writing them, and until it enters its next collective.
  virtual std::vector<ConstTensor> on_local_ranks(Tensor tensor) const = 0;
};

/// Collectives among the ranks of one run. Every rank must make the same calls in the same order, from one thread. Only
/// fail_fast() and totals() may be called from other threads. All functions may throw CommError.
class Communicator {
 public:
  virtual ~Communicator() = default;
  int rank() const { return ranks_.rank; }
  int size() const { return static_cast<int>(ranks_.hosts.size()); }
  /// Host name of each rank, in rank order.
  const std::vector<std::string>& hosts() const { return ranks_.hosts; }
  /// Index of this rank among the ranks on its host, and the number of ranks on its host.
  int local_rank() const { return ranks_.local_rank; }
  int local_size() const { return ranks_.local_size; }

  /// Allocates zeroed memory for all-reduces. Blocking; all ranks must request the same size. The memory stays valid
  /// while a collective uses it, even if the Buffer is destroyed first (for example by an exception). It may outlive
  /// the communicator.
  virtual Buffer allocate(std::size_t bytes) = 0;
  /// Starts an in-place sum of `tensor` over all ranks and returns at once. The tensor must be contiguous f32, inside
  /// memory from allocate(), at the same offset on every rank. Several all-reduces may be in flight; they complete in
  /// order. The caller must not access the tensor before all_reduce_finish(). Results are bit-equal on all ranks.
  /// Throws Failure for any other tensor.
  virtual void all_reduce_start(Tensor tensor) = 0;
  /// Waits for all started all-reduces and transfers and all operations that tracker() follows. With device memory the
  /// host waits for transfers only: work submitted to the backend afterwards waits on the device for all-reduces, and
  /// the next collective throws if one failed.
  virtual void all_reduce_finish() = 0;
  /// Forgets the rounding errors of all sums, with which the wire type int8 would change later sums in the same memory.
  /// No all-reduce may be in flight.
  virtual void forget_errors() = 0;

  /// Blocking. Sums `values` element by element over all ranks, in rank order, so results are bit-equal on all ranks.
  /// `values` must have the same size on all ranks.
  virtual void sum(std::vector<double>& values) = 0;
  /// Blocking. Returns the texts of all ranks, in rank order.
  virtual std::vector<std::string> all_gather(const std::string& text) = 0;
  /// Blocking. Sets the bits that are set on any rank; `words` has the same size on all ranks. Over messages the words
  /// of many ranks travel as those of one: each rank of a tree adds what it receives.
  virtual void or_bits(std::vector<std::uint64_t>& words) = 0;
  /// Blocking. Copies `bytes` bytes from rank `root` to all ranks.
  virtual void broadcast(void* data, std::size_t bytes, int root) = 0;
  /// Blocking. Copies `bytes` bytes from rank 0 to the first rank of each host. `data` of other ranks is not used.
  virtual void broadcast_to_hosts(void* data, std::size_t bytes) = 0;
  virtual void barrier() = 0;

  /// From now on, a waiting collective fails as soon as a peer has been unresponsive for `silence`. A peer that
  /// responds but is late still gets the full deadline. Meant for SIGTERM: when a rank dies, mpirun sends SIGTERM to
  /// all others, 250 ms (Open MPI 5) or a second (4) before SIGKILL, so 100 ms leave time to name the dead rank. May be
  /// called from any thread or a signal handler, but not during destruction.
  virtual void fail_fast(std::chrono::milliseconds silence) = 0;
  /// Totals since construction.
  virtual CommTotals totals() const = 0;
  /// One line for the log: transport, algorithm and deadline.
  virtual std::string description() const = 0;

  // Its other abilities: null on all ranks or on none; owned by the communicator.

  /// Memory that all ranks of this host map; null unless the algorithm shares memory on every host.
  SharedArrays* shared_arrays() const { return abilities_.shared_arrays; }
  /// Collectives in which each host gets a shard of a sum, with NCCL each GPU; null on one host, if hosts have
  /// different numbers of ranks, and if the algorithm is neither two_level nor a ring or tree of one rank on each host.
  HostExchange* host_exchange() const { return abilities_.host_exchange; }
  /// Throws Failure if the communicator has no transfers.
  TransferChannel& transfers() const;
  /// Follows operations that other transports start.
  CollectiveTracker* tracker() const { return abilities_.tracker; }
  /// Null for a communicator without messages.
  CommTracer* tracer() const { return abilities_.tracer; }
  /// True if all-reduces need GPU memory. allocate() then returns GPU memory.
  bool device_memory() const { return abilities_.device_memory; }
  /// True if the bits of an element's sum do not depend on the elements that are summed in the same all-reduce.
  bool same_bits_in_any_bucket() const { return abilities_.same_bits_in_any_bucket; }

 protected:
  struct Abilities {
    SharedArrays* shared_arrays = nullptr;
    HostExchange* host_exchange = nullptr;
    TransferChannel* transfers = nullptr;
    CollectiveTracker* tracker = nullptr;
    CommTracer* tracer = nullptr;
    bool device_memory = false, same_bits_in_any_bucket = false;
  };
  Communicator() = default;
  /// `hosts`: see hosts().
  Communicator(int rank, std::vector<std::string> hosts) { set_ranks(rank, std::move(hosts)); }
  void set_ranks(int rank, std::vector<std::string> hosts);
  void set_abilities(const Abilities& abilities) { abilities_ = abilities; }

 private:
  struct {
    int rank = 0, local_rank = 0, local_size = 1;
    std::vector<std::string> hosts;
  } ranks_;
  Abilities abilities_;
};

struct CommOptions {
  AllReduceAlgorithm algorithm = AllReduceAlgorithm::automatic;  // automatic, shared_memory, two_level, ring or mpi
  GradientWire wire = GradientWire::f32;                         // the mpi algorithm supports f32 only
  /// tree: ranks are added in pairs of their positions (schedule/ring.h), on every path but mpi, and only in f32. The
  /// number of ranks must be a power of two. Then neither algorithm nor hosts nor bucket sizes change a bit.
  AddOrder order = AddOrder::any;
  std::chrono::milliseconds deadline{120'000};  // max time without progress before a collective fails
  /// Segment size of ring messages. Segments let sending and adding overlap. Over TCP, a segment and its header must
  /// stay below Open MPI's eager limit of 64 KiB. Larger messages need a rendezvous handshake, which queues behind the
  /// data of both directions; a 1 Gbit/s link then runs at 0.5 to 0.65 of its rate instead of 0.95.
  std::int64_t segment_bytes = 60 * 1024;
  /// Max total payload of all-reduces in flight; a single larger all-reduce is still admitted. Must be large enough to
  /// keep both directions of a link busy. Larger values cost polling time, because the communication thread polls every
  /// all-reduce in flight.
  std::int64_t in_flight_bytes = 16 << 20;
};

/// A communicator of one rank. Collectives do nothing.
std::unique_ptr<Communicator> make_single_communicator();

/// A communicator over MPI_COMM_WORLD. The caller must have initialised MPI with MPI_THREAD_MULTIPLE (MpiSession) and
/// must finalise it only after destroying the communicator. A communication thread makes all MPI calls. Throws Failure
/// if options.algorithm is shared_memory or two_level and the ranks cannot be summed that way, if it is mpi and the
/// wire type is not f32, or if the ranks cannot be added in the required order. If destroyed with collectives in flight
/// (by an exception), it abandons them and never blocks; the process must then end with abort_mpi().
std::unique_ptr<Communicator> make_mpi_communicator(const CommOptions& options);

/// Ends the whole job after a CommError or any other fatal error on one rank. Calls MPI_Abort, so mpirun kills all
/// ranks and nobody waits for a stopped or lost peer. If MPI_Abort blocks for two seconds, this process exits by itself
/// and mpirun then ends the others. Flushes stdio, runs no destructors, does not return.
[[noreturn]] void abort_mpi(int exit_code);

}  // namespace babelring
