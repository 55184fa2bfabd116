#include "nmt/comm/mpi/ring.h"

#include <fmt/format.h>

#include <algorithm>

#include "nmt/comm/sums.h"

namespace babelring {
namespace {

/// Max messages in flight in each direction of one all-reduce: 2 MB with the default segment size.
constexpr std::size_t window = 32;

}  // namespace

Buffer SegmentPool::take() {
  if (spare_.empty()) return allocate_host(static_cast<std::size_t>(bytes_));
  Buffer buffer = std::move(spare_.back());
  spare_.pop_back();
  return buffer;
}

MpiRing::MpiRing(MPI_Comm comm, const RingPosition& ring, float* data, float* errors, std::int64_t count, int tag,
                 GradientWire wire, SegmentPool& pool, std::int64_t stripe)
    : comm_(comm),
      left_(ring.left),
      right_(ring.right),
      tag_(tag),
      wire_(wire),
      errors_(errors),
      layout_{data, count, ring.ranks, elements_in_message(wire, pool.bytes()), stripe},
      pool_(pool),
      next_receive_(layout_, (ring.position + ring.ranks - 1) % ring.ranks),
      next_send_(layout_, ring.position) {
  sendable_ = (layout_.chunk_count(ring.position) + layout_.segment - 1) / layout_.segment;
}

std::string MpiRing::name() const {
  return fmt::format("{} of {:.1f} MB", layout_.scatters() ? "reduce-scatter" : "all-reduce",
                     static_cast<double>(bytes()) / 1e6);
}

void MpiRing::begin() {
  post_receives();
  post_sends();
}

Collective::Progress MpiRing::advance() {
  const bool received = finish_receives();
  const bool sent = finish_sends();
  if (received || sent) {
    post_receives();
    post_sends();
  }
  if (next_receive_.at_end() && next_send_.at_end() && receives_.empty() && sends_.empty()) return Progress::done;
  return received || sent ? Progress::some : Progress::none;
}

/// The g-th final sum overwrites the values sent by the g-th send, so it is received only after that send has
/// completed.
void MpiRing::post_receives() {
  while (!next_receive_.at_end() && receives_.size() < window) {
    const bool reducing = next_receive_.reducing();
    if (!reducing && gathers_posted_ >= sends_done_) return;
    Receive& receive = receives_.emplace_back();
    receive.target = next_receive_.data();
    receive.count = next_receive_.count();
    receive.reducing = reducing;
    receive.passed_on = next_receive_.step() + 1 < layout_.steps();
    receive.completes = next_receive_.step() == layout_.ranks - 2;
    if (reducing || coded()) receive.segment = pool_.take();
    void* destination = reducing || coded() ? receive.segment.data() : receive.target;
    check_mpi(MPI_Irecv(destination, static_cast<int>(wire_bytes(wire_, receive.count)), MPI_BYTE, left_, tag_, comm_,
                        receive.request.out()),
              "MPI_Irecv");
    gathers_posted_ += reducing ? 0 : 1;
    next_receive_.next();
  }
}

void MpiRing::post_sends() {
  while (!next_send_.at_end() && sends_posted_ < sendable_ && sends_.size() < window) {
    Send& send = sends_.emplace_back();
    const void* data = next_send_.data();
    if (coded()) {
      if (next_send_.reducing()) {
        send.segment = encoded(next_send_.data(), next_send_.count());
      } else {
        send.segment = std::move(final_messages_.front());
        final_messages_.pop_front();
      }
      data = send.segment.data();
    }
    check_mpi(MPI_Isend(data, static_cast<int>(wire_bytes(wire_, next_send_.count())), MPI_BYTE, right_, tag_, comm_,
                        send.request.out()),
              "MPI_Isend");
    ++sends_posted_;
    next_send_.next();
  }
}

bool MpiRing::finish_receives() {
  bool any = false;
  while (!receives_.empty() && receives_.front().request.test()) {
    Receive& receive = receives_.front();
    store_received(receive);
    sendable_ += receive.passed_on ? 1 : 0;
    receives_.pop_front();
    any = true;
  }
  return any;
}

/// Adds or copies a received segment to its target. All ranks decode the same messages of final sums: the rank that
/// completes a sum rounds it, and the others pass on what they received.
void MpiRing::store_received(Receive& receive) {
  if (!receive.reducing && !coded()) return;  // received in place
  if (receive.reducing) {
    decode_and_add(wire_, receive.segment.data(), receive.count, receive.target);
    pool_.give_back(std::move(receive.segment));
    if (!coded() || !receive.completes || layout_.scatters()) return;
    receive.segment = encoded(receive.target, receive.count);
  }
  decode(wire_, receive.segment.data(), receive.count, receive.target);
  if (receive.passed_on) {
    final_messages_.push_back(std::move(receive.segment));
  } else {
    pool_.give_back(std::move(receive.segment));
  }
}

/// A message of `count` of this all-reduce's values.
Buffer MpiRing::encoded(const float* values, int count) {
  Buffer message = pool_.take();
  float* errors = errors_ == nullptr ? nullptr : errors_ + (values - layout_.data);
  encode(wire_, values, errors, count, message.data());
  return message;
}

bool MpiRing::finish_sends() {
  bool any = false;
  while (!sends_.empty() && sends_.front().request.test()) {
    if (coded()) pool_.give_back(std::move(sends_.front().segment));
    sends_.pop_front();
    ++sends_done_;
    any = true;
  }
  return any;
}

}  // namespace babelring
