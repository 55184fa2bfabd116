#include "nmt/comm/shared/two_level_all_reduce.h"

#include <fmt/format.h>

#include <algorithm>

#include "nmt/comm/add.h"

namespace babelring {

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
