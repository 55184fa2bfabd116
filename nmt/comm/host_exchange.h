#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "nmt/core/buffer.h"
#include "nmt/core/shards.h"

namespace babelring {

/// For each place the elements of a tensor that the rank at this place has, as ascending ranges.
using PartsByPlace = std::vector<std::vector<ElementRange>>;

/// Collectives between hosts that have equal numbers of ranks. The ranks with the same index on their hosts exchange
/// data; each has a place among them. GPUs exchange by themselves: each counts as a host with one rank. Like
/// all-reduces they start at once, may be in flight together, complete in order, and are complete after
/// Communicator::all_reduce_finish(). Every rank must make the same calls. All functions may throw CommError.
class HostExchange {
 public:
  virtual ~HostExchange() = default;
  virtual int host_count() const = 0;
  /// From 0 to host_count() - 1. Ranks of one host may have different places.
  virtual int place() const = 0;

  /// The number of the stripe that the rank at `place` with this rank's index gets of a sum.
  virtual int stripe_of(int place) const = 0;

  /// Starts a sum of `tensor` over all ranks of which each gets one stripe: stripe_of(place()). Other elements have no
  /// meaning afterwards, except that those that are 0 on all ranks stay 0. Takes the tensors that
  /// Communicator::all_reduce_start() takes, of at most `stripe` elements for each rank. The sum is added in the order
  /// of an all-reduce, but not rounded to the wire type at the end.
  virtual void reduce_scatter_start(Tensor tensor, std::int64_t stripe) = 0;

  /// Allocates zeroed memory for all-gathers, of which all ranks of a host see one copy. `reserved`: the bytes for
  /// which this rank takes memory now; others take memory when they are first written. Blocking; all ranks must request
  /// the same size. Throws Failure if memory is short.
  virtual Buffer allocate_for_gathers(std::size_t bytes, const std::vector<ElementRange>& reserved) = 0;
  /// Starts an all-gather of a tensor of any type in memory from allocate_for_gathers(): this rank sends
  /// parts[place()], and gets the other parts from the ranks at their places. It is complete when this rank sees its
  /// parts and those of the other ranks of its host. `parts` must be equal on all ranks with this local index, and not
  /// overlap those of others. Returns a number for finish().
  virtual std::int64_t all_gather_start(Tensor tensor, const PartsByPlace& parts) = 0;
  /// Waits for this all-gather and all collectives that were started before it.
  virtual void finish(std::int64_t all_gather) = 0;
};

}  // namespace babelring
