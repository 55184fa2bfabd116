#include "nmt/comm/shared/shared_all_reduce.h"

#include <fmt/format.h>

#include <algorithm>

#include "nmt/comm/sums.h"

namespace babelring {

ElementRange summed_by(int rank, int ranks, std::int64_t count) {
  constexpr std::int64_t line = 16;
  const auto begin = [&](int part) { return part == ranks ? count : count * part / ranks / line * line; };
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

TwoLevelAllReduce::TwoLevelAllReduce(std::shared_ptr<const SharedBoard> board, const SharedMemory& memory, float* data,
                                     std::int64_t count, std::int64_t number, std::vector<int> local_ranks,
                                     SumOverHosts over_hosts, AddOrder order, std::optional<ElementRange> part)
    : board_(std::move(board)),
      own_(data),
      count_(count),
      number_(number),
      scatters_(part.has_value()),
      shard_(part ? *part : summed_by(board_->rank(), board_->ranks(), count)),
      next_(shard_.begin),
      local_ranks_(std::move(local_ranks)),
      start_over_hosts_(std::move(over_hosts)),
      order_(order) {
  for (int rank = 0; rank < board_->ranks(); ++rank) parts_.push_back(memory.peer_of(data, rank));
}

void TwoLevelAllReduce::begin() {
  board_->own().published.store(number_ + 1);
  board_->ring_peers();
}

Collective::Progress TwoLevelAllReduce::advance() {
  switch (phase_) {
    case Phase::within_host:
      return sum_within_host();
    case Phase::between_hosts:
      return sum_between_hosts();
    case Phase::writing:
      return write_to_host();
    case Phase::waiting:
      break;
  }
  return board_->behind(&SharedBoard::Place::summed, number_) < 0 ? Progress::done : Progress::none;
}

Collective::Progress TwoLevelAllReduce::sum_within_host() {
  if (board_->behind(&SharedBoard::Place::published, number_) >= 0) return Progress::none;
  const std::int64_t size = std::min(shared_sum_block, shard_.end - next_);
  sum_into_one(parts_, own_, next_, size, order_);
  next_ += size;
  if (next_ < shard_.end) return Progress::some;
  over_hosts_ = start_over_hosts_(own_ + shard_.begin, shard_.end - shard_.begin);
  over_hosts_->begin();
  phase_ = Phase::between_hosts;
  return Progress::some;
}

Collective::Progress TwoLevelAllReduce::sum_between_hosts() {
  const Progress progress = over_hosts_->advance();
  if (progress != Progress::done) return progress;
  next_ = shard_.begin;
  phase_ = Phase::writing;
  return Progress::some;
}

/// Only this rank has read the other ranks' values of its shard, so it may overwrite them at once. The counter holds a
/// number of all-reduces, so they must be counted in order, although a later one may be complete earlier.
Collective::Progress TwoLevelAllReduce::write_to_host() {
  const std::int64_t size = scatters_ ? 0 : std::min(shared_sum_block, shard_.end - next_);
  if (size > 0) {
    for (float* part : parts_) {
      if (part != own_) std::copy_n(own_ + next_, size, part + next_);
    }
    next_ += size;
    return Progress::some;
  }
  if (board_->own().summed.load() != number_) return Progress::none;
  board_->own().summed.store(number_ + 1);
  board_->ring_peers();
  phase_ = Phase::waiting;
  return Progress::some;
}

int TwoLevelAllReduce::waiting_for() const {
  if (phase_ == Phase::between_hosts) return over_hosts_->waiting_for();
  const int local = board_->behind(
      phase_ == Phase::within_host ? &SharedBoard::Place::published : &SharedBoard::Place::summed, number_);
  return local < 0 ? -1 : local_ranks_[static_cast<std::size_t>(local)];
}

std::string TwoLevelAllReduce::name() const {
  return fmt::format("{} of {:.1f} MB", scatters_ ? "reduce-scatter" : "all-reduce",
                     static_cast<double>(payload_bytes()) / 1e6);
}

}  // namespace babelring
