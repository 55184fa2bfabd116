#pragma once

#include <cstdint>
#include <deque>
#include <string>
#include <vector>

#include "nmt/comm/collective.h"
#include "nmt/comm/communicator.h"
#include "nmt/comm/mpi/handles.h"
#include "nmt/comm/schedule/ring.h"
#include "nmt/core/buffer.h"

namespace babelring {

/// A free list of segment buffers of one size. Not thread-safe.
class SegmentPool {
 public:
  explicit SegmentPool(std::int64_t bytes) : bytes_(bytes) {}
  Buffer take();
  void give_back(Buffer buffer) { spare_.push_back(std::move(buffer)); }
  std::int64_t bytes() const { return bytes_; }

 private:
  std::int64_t bytes_;
  std::vector<Buffer> spare_;
};

/// Ring all-reduce over point-to-point messages: reduce-scatter, then all-gather (Patarasuk and Yuan 2009, section 3).
/// Every rank sends to its right neighbour and receives from its left one (schedule/ring.h). A segment is forwarded as
/// soon as it has been added, so both directions of a link stay busy. Chunk c is summed in the order of ring positions
/// c, c + 1, … and then copied, so results are bit-equal on all ranks. Sums into `data` in place. See GradientWire for
/// the rounding errors of bf16 and int8 messages. The first half alone is a reduce-scatter in stripes: this rank gets
/// the sums of stripe scattered_stripe() and overwrites other values with partial sums; the sums are not rounded at the
/// end.
class MpiRing final : public Collective {
 public:
  /// `errors` has this rank's rounding error of each value, and is used by the wire type int8 only: this rank rounds
  /// each element once. `tag` must be unique among the all-reduces in flight on `comm`. `pool` must outlive this
  /// object. `stripe`: RingLayout::stripe of a reduce-scatter; 0: all-reduce.
  MpiRing(MPI_Comm comm, const RingPosition& ring, float* data, float* errors, std::int64_t count, int tag,
          GradientWire wire, SegmentPool& pool, std::int64_t stripe = 0);

  /// The stripe that the rank at `position` of `ranks` gets from a reduce-scatter.
  static int scattered_stripe(int position, int ranks) { return (position + 1) % ranks; }

  void begin() override;
  Progress advance() override;
  std::string name() const override;
  std::int64_t bytes() const override { return layout_.count * std::int64_t{sizeof(float)}; }
  int waiting_for() const override { return left_; }

 private:
  struct Receive {
    MpiRequest request;
    float* target;  // in `data`
    int count;
    bool reducing;
    bool passed_on;  // forwarded to the right neighbour; true except in the last step
    bool completes;  // adding this rank's values gives the final sum
    Buffer segment;  // receive buffer, unless received directly into `target`
  };
  struct Send {
    MpiRequest request;
    Buffer segment;  // send buffer, unless sent directly from `data`
  };
  void post_receives();
  void post_sends();
  bool finish_receives();
  bool finish_sends();
  void store_received(Receive& receive);
  Buffer encoded(const float* values, int count);
  bool coded() const { return wire_ != GradientWire::f32; }

  MPI_Comm comm_;
  int left_, right_, tag_;
  GradientWire wire_;
  float* errors_;
  RingLayout layout_;
  SegmentPool& pool_;
  RingCursor next_receive_, next_send_;
  std::deque<Receive> receives_;
  std::deque<Send> sends_;
  std::deque<Buffer> final_messages_;  // coded final sums for the next sends
  std::int64_t sendable_ = 0;          // sends whose data is ready, posted or not
  std::int64_t sends_posted_ = 0, sends_done_ = 0;
  std::int64_t gathers_posted_ = 0;  // posted receives of final sums
};

}  // namespace babelring
