#pragma once

#include <algorithm>
#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "nmt/comm/communicator.h"
#include "nmt/comm/mpi/progress.h"
#include "nmt/comm/mpi/ring.h"
#include "nmt/comm/schedule/ring.h"
#include "nmt/comm/schedule/tree.h"

namespace babelring {

/// All-reduce over point-to-point messages that adds in pairs of positions: (0 + 1) + (2 + 3), and so on. Recursive
/// halving, then recursive doubling (Thakur, Rabenseifner and Gropp 2005, section 4.4): in step s positions that differ
/// in bit s exchange halves of what they still sum, nearest positions first; afterwards they exchange sums in the
/// reverse order. A rank sends as many bytes as in a ring, in 2 log2(ranks) steps. If the number of ranks is no power
/// of two, the positions from its largest power p on first give all their values to position - p, and get the sums
/// last. Sums into `data` in place, in f32. See tree_steps(); with tree_scatter_steps() it is a reduce-scatter, which
/// overwrites other values with partial sums.
class MpiTree final : public Collective {
 public:
  /// `tag` must be unique among the all-reduces in flight on `comm`. `pool` must
  /// outlive this object.
  MpiTree(MPI_Comm comm, std::vector<TreeStep> steps, float* data, std::int64_t count, int tag, SegmentPool& pool);

  void begin() override;
  Progress advance() override;
  std::string name() const override;
  std::int64_t bytes() const override { return count_ * std::int64_t{sizeof(float)}; }
  int waiting_for() const override { return step_ < steps_.size() ? steps_[step_].peer : -1; }

 private:
  struct Receive {
    MpiRequest request;
    float* target;
    int count;
    Buffer segment;  // receive buffer, unless received directly into `target`
  };
  void enter_step();
  void post();
  bool finish_receives();
  bool finish_sends();
  bool step_done() const;

  bool scatters() const {
    return std::all_of(steps_.begin(), steps_.end(), [](const auto& step) { return step.adding; });
  }

  MPI_Comm comm_;
  float* data_;
  std::int64_t count_;
  int tag_;
  SegmentPool& pool_;
  std::int64_t segment_;  // floats
  std::vector<TreeStep> steps_;
  std::size_t step_ = 0;
  std::int64_t next_sent_ = 0, next_received_ = 0;  // of this step, elements that have no message yet
  std::deque<Receive> receives_;
  std::deque<MpiRequest> sends_;
};

/// How ranks or hosts are summed by messages: round a ring or by a tree.
struct MessageSums {
  static constexpr std::int64_t largest_sum = std::int64_t{1} << 40;  // elements

  RingPosition ring;
  GradientWire wire = GradientWire::f32;
  AddOrder order = AddOrder::any;
  bool may_choose_tree = false;  // where it is faster

  /// True if a sum of `count` elements is taken by a tree.
  bool by_tree(std::int64_t count) const;
  /// True if an element's bits do not depend on which elements are summed together with it.
  bool same_bits_in_any_bucket() const;
  /// True if large sums are taken in parts.
  bool in_parts() const { return by_tree(largest_sum) && same_bits_in_any_bucket(); }
  /// Bytes that this rank sends for a sum of `count` elements.
  std::int64_t bytes_to_send(std::int64_t count) const;
  /// The stripe whose sums the rank at `position` gets from scatter().
  int stripe_of(int position) const;
  /// Bytes that this rank sends for a reduce-scatter of `count` elements, `stripe_elements` a stripe.
  std::int64_t bytes_to_scatter(std::int64_t count, std::int64_t stripe_elements) const;
  /// The reduce-scatter of `count` elements at `data`, at most one stripe of `stripe_elements` for each rank.
  std::unique_ptr<Collective> scatter(MpiProgress::World& world, std::int64_t sequence, float* data, float* errors,
                                      std::int64_t count, std::int64_t stripe_elements) const;
  /// The sum of `count` elements at `data`, in place. `errors`: see MpiRing.
  std::unique_ptr<Collective> all_reduce(MpiProgress::World& world, std::int64_t sequence, float* data, float* errors,
                                         std::int64_t count) const;

 private:
  bool scatters_by_tree() const;
};

}  // namespace babelring
