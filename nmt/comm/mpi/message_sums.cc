#include "nmt/comm/mpi/message_sums.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>

#include "nmt/comm/mpi/ring.h"
#include "nmt/comm/schedule/tree.h"
#include "nmt/comm/sums.h"

namespace babelring {
namespace {

constexpr std::size_t max_messages = 32;  // in flight in each direction

}  // namespace

MpiTree::MpiTree(MPI_Comm comm, std::vector<TreeStep> steps, float* data, std::int64_t count, int tag,
                 SegmentPool& pool)
    : comm_(comm),
      data_(data),
      count_(count),
      tag_(tag),
      pool_(pool),
      segment_(pool.bytes() / std::int64_t{sizeof(float)}),
      steps_(std::move(steps)) {}

std::string MpiTree::name() const {
  return fmt::format("{} of {:.1f} MB", scatters() ? "reduce-scatter" : "all-reduce",
                     static_cast<double>(bytes()) / 1e6);
}

void MpiTree::begin() {
  enter_step();
}

Collective::Progress MpiTree::advance() {
  const bool received = finish_receives();
  const bool sent = finish_sends();
  if (received || sent) post();
  while (step_ < steps_.size() && step_done()) {
    ++step_;
    enter_step();
  }
  if (step_ == steps_.size()) return Progress::done;
  return received || sent ? Progress::some : Progress::none;
}

void MpiTree::enter_step() {
  if (step_ == steps_.size()) return;
  next_sent_ = steps_[step_].sent.begin;
  next_received_ = steps_[step_].received.begin;
  post();
}

void MpiTree::post() {
  if (step_ == steps_.size()) return;
  const TreeStep& step = steps_[step_];
  while (next_received_ < step.received.end && receives_.size() < max_messages) {
    Receive& receive = receives_.emplace_back();
    receive.target = data_ + next_received_;
    receive.count = static_cast<int>(std::min(segment_, step.received.end - next_received_));
    if (step.adding) receive.segment = pool_.take();
    void* to = step.adding ? receive.segment.data() : receive.target;
    check_mpi(MPI_Irecv(to, receive.count, MPI_FLOAT, step.peer, tag_, comm_, receive.request.out()), "MPI_Irecv");
    next_received_ += receive.count;
  }
  while (next_sent_ < step.sent.end && sends_.size() < max_messages) {
    const int count = static_cast<int>(std::min(segment_, step.sent.end - next_sent_));
    MpiRequest& request = sends_.emplace_back();
    check_mpi(MPI_Isend(data_ + next_sent_, count, MPI_FLOAT, step.peer, tag_, comm_, request.out()), "MPI_Isend");
    next_sent_ += count;
  }
}

bool MpiTree::finish_receives() {
  bool any = false;
  while (!receives_.empty() && receives_.front().request.test()) {
    Receive& receive = receives_.front();
    if (steps_[step_].adding) {
      add_in_place(receive.target, static_cast<const float*>(receive.segment.data()), receive.count);
      pool_.give_back(std::move(receive.segment));
    }
    receives_.pop_front();
    any = true;
  }
  return any;
}

bool MpiTree::finish_sends() {
  bool any = false;
  while (!sends_.empty() && sends_.front().test()) {
    sends_.pop_front();
    any = true;
  }
  return any;
}

/// A later step overwrites what this one sends, so its sends must be complete too.
bool MpiTree::step_done() const {
  const TreeStep& step = steps_[step_];
  return next_sent_ == step.sent.end && next_received_ == step.received.end && receives_.empty() && sends_.empty();
}

bool MessageSums::by_tree(std::int64_t count) const {
  return order == AddOrder::tree || (may_choose_tree && tree_is_faster(ring.ranks, count * 4));
}

bool MessageSums::same_bits_in_any_bucket() const {
  return wire == GradientWire::f32 && (ring.ranks <= 2 || order == AddOrder::tree ||
                                       (may_choose_tree && std::has_single_bit(static_cast<unsigned>(ring.ranks))));
}

std::int64_t MessageSums::bytes_to_send(std::int64_t count) const {
  if (by_tree(count)) return tree_elements_sent(ring, count) * 4;
  return wire_bytes(wire, count) * 2 * (ring.ranks - 1) / ring.ranks;
}

std::unique_ptr<Collective> MessageSums::all_reduce(MpiProgress::World& world, std::int64_t sequence, float* data,
                                                    float* errors, std::int64_t count) const {
  const int tag = tag_of(sequence);
  if (by_tree(count)) {
    return std::make_unique<MpiTree>(world.ring.get(), tree_steps(ring, count), data, count, tag, world.pool);
  }
  return std::make_unique<MpiRing>(world.ring.get(), ring, data, errors, count, tag, wire, world.pool);
}

/// Between a power of two of hosts, like all-reduces, so that both give the same bits.
bool MessageSums::scatters_by_tree() const {
  return std::has_single_bit(static_cast<unsigned>(ring.ranks)) && by_tree(largest_sum);
}

int MessageSums::stripe_of(int position) const {
  return scatters_by_tree() ? tree_scattered_stripe(position, ring.ranks)
                            : MpiRing::scattered_stripe(position, ring.ranks);
}

std::int64_t MessageSums::bytes_to_scatter(std::int64_t count, std::int64_t stripe) const {
  if (scatters_by_tree()) return elements_sent(tree_scatter_steps(ring, count, stripe)) * 4;
  const RingLayout layout{.count = count, .ranks = ring.ranks, .stripe = stripe};
  return wire_bytes(wire, count - layout.chunk_count(stripe_of(ring.position)));
}

std::unique_ptr<Collective> MessageSums::scatter(MpiProgress::World& world, std::int64_t sequence, float* data,
                                                 float* errors, std::int64_t count, std::int64_t stripe) const {
  const int tag = tag_of(sequence);
  if (scatters_by_tree()) {
    return std::make_unique<MpiTree>(world.ring.get(), tree_scatter_steps(ring, count, stripe), data, count, tag,
                                     world.pool);
  }
  return std::make_unique<MpiRing>(world.ring.get(), ring, data, errors, count, tag, wire, world.pool, stripe);
}

}  // namespace babelring
