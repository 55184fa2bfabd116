#include "nmt/comm/mpi/tree.h"

#include <fmt/format.h>

#include <algorithm>

#include "nmt/comm/add.h"

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

}  // namespace babelring
