#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/result.h"
#include "nmt/core/buffer.h"
#include "nmt/core/shards.h"

namespace babelring {

/// For each position the elements of a tensor that the rank there has, as ascending ranges.
using PartsByPosition = std::vector<std::vector<ElementRange>>;

/// Collectives between hosts that have equal numbers of ranks. The ranks with the same index on their hosts exchange
/// data; each has a position among them. GPUs exchange by themselves: each counts as a host with one rank. Like
/// all-reduces they start at once, may be in flight together, complete in order, and are complete after
/// Communicator::all_reduce_finish(). Every rank must make the same calls. All functions may throw CommError.
class HostExchange {
 public:
  virtual ~HostExchange() = default;
  virtual int host_count() const = 0;
  /// From 0 to host_count() - 1. Ranks of one host may have different positions.
  virtual int position() const = 0;

  /// The number of the stripe that the rank at this position with this rank's index gets of a sum.
  virtual int stripe_of(int position) const = 0;

  /// Starts a sum of `tensor` over all ranks of which each gets one stripe: stripe_of(position()). Other elements have
  /// no meaning afterwards, except that those that are 0 on all ranks stay 0. Takes the tensors that
  /// Communicator::all_reduce_start() takes, of at most `stripe` elements for each rank. The sum is added in the order
  /// of an all-reduce, but not rounded to the wire type at the end.
  virtual void reduce_scatter_start(Tensor tensor, std::int64_t stripe) = 0;

  /// Allocates zeroed memory for all-gathers, of which all ranks of a host see one copy. `reserved`: the bytes for
  /// which this rank takes memory now; others take memory when they are first written. Blocking; all ranks must request
  /// the same size. Throws Failure if memory is short.
  virtual Buffer allocate_for_gathers(std::size_t bytes, const std::vector<ElementRange>& reserved) = 0;
  /// Starts an all-gather of a tensor of any type in memory from allocate_for_gathers(): this rank sends
  /// parts[position()], and gets the other parts from the ranks at their positions. It is complete when this rank sees
  /// its parts and those of the other ranks of its host. `parts` must be equal on all ranks with this local index, and
  /// not overlap those of others. Returns a number for finish().
  virtual std::int64_t all_gather_start(Tensor tensor, const PartsByPosition& parts) = 0;
  /// Waits for this all-gather and all collectives that were started before it.
  virtual void finish(std::int64_t all_gather) = 0;
};

/// One collective in progress, driven only by the communication thread. No function may block except abort(). All may
/// throw CommError except abort().
class Collective {
 public:
  enum class Progress { none, some, done };

  virtual ~Collective() = default;
  /// Posts the first messages. Called once, before advance().
  virtual void begin() = 0;
  /// Makes progress without blocking. Called repeatedly until it returns done, then never again.
  virtual Progress advance() = 0;
  /// Description for messages, such as "all-reduce of 26.2 MB".
  virtual std::string name() const = 0;
  /// Payload bytes; counts towards CommOptions::in_flight_bytes.
  virtual std::int64_t bytes() const = 0;
  /// Bytes that it sums over the ranks, equal on all ranks; 0 if it is not an all-reduce.
  virtual std::int64_t payload_bytes() const { return bytes(); }
  struct Times {
    SteadyClock::time_point begun, done;
  };
  /// When a completed collective ran, if something other than the communication thread measured it.
  virtual std::optional<Times> measured_times() const { return std::nullopt; }
  /// The rank it waits for; -1 if unknown.
  virtual int waiting_for() const { return -1; }
  /// True if peers notify this rank's EventCount when they make progress. Otherwise the communication thread must poll.
  virtual bool notified() const { return false; }

  /// The transport's error. A collective with an error fails with its message, after the peers have been queried to
  /// find a lost one.
  virtual Status status() const { return {}; }
  /// Aborts the operation, including work that may hang outside this process. Called when the collective has been
  /// abandoned.
  virtual void abort() noexcept {}

  /// Keeps `memory` alive as long as this object. If the call that started a collective ends by an exception, MPI may
  /// still read or write its memory.
  void keep(std::shared_ptr<const void> memory) { memory_ = std::move(memory); }

 private:
  std::shared_ptr<const void> memory_;
};

/// Tracks operations that run elsewhere, on GPUs, as if they were the communicator's own collectives: they also fail on
/// a lost peer, on the deadline and on fail_fast(). See Communicator::tracker().
class CollectiveTracker {
 public:
  virtual ~CollectiveTracker() = default;
  /// Every rank must follow the same operations in the same order, from the thread that uses the communicator.
  virtual void follow(std::unique_ptr<Collective> operation) = 0;
};

}  // namespace babelring
