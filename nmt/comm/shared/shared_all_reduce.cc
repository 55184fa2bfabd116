#include "nmt/comm/shared/shared_all_reduce.h"

#include <fmt/format.h>

#include <algorithm>

#include "nmt/comm/add.h"

namespace babelring {

ElementRange summed_by(int rank, int ranks, std::int64_t count) {
  constexpr std::int64_t line = 16;
  const auto begin = [&](int of) { return of == ranks ? count : count * of / ranks / line * line; };
  return {.begin = begin(rank), .end = begin(rank + 1)};
}

void SharedBoard::ring_peers() const {
  for (int peer = 0; peer < ranks_; ++peer) {
    if (peer != rank_) place(peer).event_count.notify();
  }
}

int SharedBoard::behind(std::atomic<std::int64_t> Place::* counter, std::int64_t number) const {
  for (int rank = 0; rank < ranks_; ++rank) {
    if ((place(rank).*counter).load() <= number) return rank;
  }
  return -1;
}

SharedAllReduce::SharedAllReduce(std::shared_ptr<const SharedBoard> board, const SharedMemory& memory, float* data,
                                 std::int64_t count, std::int64_t number, AddOrder order)
    : board_(std::move(board)), count_(count), number_(number), order_(order) {
  const ElementRange own = summed_by(board_->rank(), board_->ranks(), count);
  next_ = own.begin;
  end_ = own.end;
  for (int rank = 0; rank < board_->ranks(); ++rank) parts_.push_back(memory.peer_of(data, rank));
}

void SharedAllReduce::begin() {
  board_->own().published.store(number_ + 1);
  board_->ring_peers();
}

Collective::Progress SharedAllReduce::advance() {
  if (summed_) return board_->behind(&SharedBoard::Place::summed, number_) < 0 ? Progress::done : Progress::none;
  // All-reduces must be summed in order: the counter holds a number of all-reduces, not which ones.
  if (board_->own().summed.load() != number_ || board_->behind(&SharedBoard::Place::published, number_) >= 0)
    return Progress::none;
  const std::int64_t count = std::min(shared_sum_block, end_ - next_);
  sum_into_all(parts_, next_, count, order_);
  next_ += count;
  if (next_ < end_) return Progress::some;
  summed_ = true;
  board_->own().summed.store(number_ + 1);
  board_->ring_peers();
  return board_->behind(&SharedBoard::Place::summed, number_) < 0 ? Progress::done : Progress::some;
}

int SharedAllReduce::waiting_for() const {
  return board_->behind(summed_ ? &SharedBoard::Place::summed : &SharedBoard::Place::published, number_);
}

std::string SharedAllReduce::name() const {
  return fmt::format("all-reduce of {:.1f} MB", static_cast<double>(bytes()) / 1e6);
}

}  // namespace babelring
