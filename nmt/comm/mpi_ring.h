#pragma once

#include <cstdint>
#include <deque>
#include <string>
#include <vector>

#include "nmt/comm/collective.h"
#include "nmt/comm/communicator.h"
#include "nmt/comm/mpi_handles.h"
#include "nmt/comm/ring_order.h"
#include "nmt/core/buffer.h"

namespace babelring {

/// Spare buffers of one size for segments on their way, kept for the next. Used by one thread.
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

/// How `count` floats are cut: one chunk per rank, every chunk into segments.
struct RingLayout {
  float* data = nullptr;
  std::int64_t count = 0;
  int ranks = 1;
  std::int64_t segment = 1;  // floats

  std::int64_t chunk_begin(int chunk) const { return count * chunk / ranks; }
  std::int64_t chunk_count(int chunk) const { return chunk_begin(chunk + 1) - chunk_begin(chunk); }
};

/// Walks a rank's messages in the order both sides agree on: 2 (ranks - 1) steps, each one chunk, segment by segment;
/// step s has chunk (first - s) mod ranks. Empty chunks have no messages.
class RingCursor {
 public:
  RingCursor(const RingLayout& layout, int first_chunk) : layout_(layout), first_chunk_(first_chunk) { skip_empty(); }

  bool at_end() const { return step_ == 2 * (layout_.ranks - 1); }
  /// In the first half of the steps partial sums travel, in the second complete ones.
  bool reducing() const { return step_ < layout_.ranks - 1; }
  int step() const { return step_; }
  float* data() const { return layout_.data + layout_.chunk_begin(chunk()) + offset_; }
  int count() const;
  void next();

 private:
  int chunk() const { return (first_chunk_ - step_ + 2 * layout_.ranks) % layout_.ranks; }
  void skip_empty();
  RingLayout layout_;
  int first_chunk_;
  int step_ = 0;
  std::int64_t offset_ = 0;  // floats within the chunk
};

/// Ring all-reduce over point-to-point messages: reduce-scatter, then all-gather (Patarasuk and Yuan 2009, section 3),
/// every rank sending to its right neighbour and receiving from its left one (ring_order.h). A segment is passed on as
/// soon as it has been added, so both directions of a link are busy. Chunk c is summed in the order of positions c, c +
/// 1, … and then copied: bit-equal everywhere. Adds to `data` in place. GradientWire says what bf16 messages cost in
/// accuracy.
class MpiRing final : public Collective {
 public:
  /// `tag` tells this all-reduce's messages from those of others in flight on `comm`. `pool` outlives it.
  MpiRing(MPI_Comm comm, const RingPlace& place, float* data, std::int64_t count, int tag, GradientWire wire,
          SegmentPool& pool);

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
    bool passed_on;  // to the right neighbour, as every segment but those of the last step
    bool completes;  // the sum, with this rank's addend
    Buffer segment;  // where it lands, unless it can land in `target`
  };
  struct Send {
    MpiRequest request;
    Buffer segment;  // what is sent, unless it is sent from `data`
  };
  void post_receives();
  void post_sends();
  bool finish_receives();
  bool finish_sends();
  void take_in(Receive& receive);
  bool narrow() const { return wire_ == GradientWire::bf16; }
  MPI_Datatype type() const { return narrow() ? MPI_UINT16_T : MPI_FLOAT; }

  MPI_Comm comm_;
  int left_, right_, tag_;
  GradientWire wire_;
  RingLayout layout_;
  SegmentPool& pool_;
  RingCursor next_receive_, next_send_;
  std::deque<Receive> receives_;
  std::deque<Send> sends_;
  std::int64_t sendable_ = 0;  // sends whose data is ready, posted or not
  std::int64_t sends_posted_ = 0, sends_done_ = 0;
  std::int64_t gathers_posted_ = 0;  // receives of complete sums
};

}  // namespace babelring
