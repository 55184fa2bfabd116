#include "nmt/comm/shared_all_reduce.h"

#include <fmt/format.h>

#include <algorithm>

#include "nmt/comm/add.h"

namespace babelring {
namespace {

/// Elements summed per call of advance().
constexpr std::int64_t sum_block = 1 << 17;

/// First element of a rank's shard, aligned to a cache line so that no two ranks write to the same one.
std::int64_t shard_begin(std::int64_t count, int rank, int ranks) {
  constexpr std::int64_t line = 16;
  return rank == ranks ? count : count * rank / ranks / line * line;
}

}  // namespace

void SharedBoard::ring_peers() const {
  for (int peer = 0; peer < ranks_; ++peer) {
    if (peer != rank_) place(peer).bell.notify();
  }
}

SharedAllReduce::SharedAllReduce(std::shared_ptr<const SharedBoard> board, const SharedMemory& memory, float* data,
                                 std::int64_t count, std::int64_t number)
    : board_(std::move(board)),
      count_(count),
      number_(number),
      next_(shard_begin(count, board_->rank(), board_->ranks())),
      end_(shard_begin(count, board_->rank() + 1, board_->ranks())) {
  for (int rank = 0; rank < board_->ranks(); ++rank) parts_.push_back(memory.peer_of(data, rank));
}

void SharedAllReduce::begin() {
  board_->own().published.store(number_ + 1);
  board_->ring_peers();
}

Collective::Progress SharedAllReduce::advance() {
  if (summed_) return missing(&SharedBoard::Place::summed) < 0 ? Progress::done : Progress::none;
  // All-reduces must be summed in order: the counter holds a number of all-reduces, not which ones.
  if (board_->own().summed.load() != number_ || missing(&SharedBoard::Place::published) >= 0) return Progress::none;
  const std::int64_t count = std::min(sum_block, end_ - next_);
  sum_into_all(parts_, next_, count);
  next_ += count;
  if (next_ < end_) return Progress::some;
  summed_ = true;
  board_->own().summed.store(number_ + 1);
  board_->ring_peers();
  return missing(&SharedBoard::Place::summed) < 0 ? Progress::done : Progress::some;
}

int SharedAllReduce::missing(std::atomic<std::int64_t> SharedBoard::Place::*counter) const {
  for (int rank = 0; rank < board_->ranks(); ++rank) {
    if ((board_->place(rank).*counter).load() <= number_) return rank;
  }
  return -1;
}

int SharedAllReduce::waiting_for() const {
  return missing(summed_ ? &SharedBoard::Place::summed : &SharedBoard::Place::published);
}

std::string SharedAllReduce::name() const {
  return fmt::format("all-reduce of {:.1f} MB", static_cast<double>(bytes()) / 1e6);
}

}  // namespace babelring
