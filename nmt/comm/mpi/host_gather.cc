#include "nmt/comm/mpi/host_gather.h"

namespace babelring {

Collective::Progress HostGather::advance() {
  if (!received_) {
    const Progress progress = own_->advance();
    if (progress != Progress::done) return progress;
    received_ = true;
  }
  bool moved = false;
  // The counter holds a number of all-gathers, so they are published in order.
  if (!published_ && board_->own().gathered.load() == number_) {
    board_->own().gathered.store(number_ + 1);
    board_->ring_peers();
    published_ = moved = true;
  }
  if (published_ && board_->behind(&SharedBoard::Place::gathered, number_) < 0) return Progress::done;
  return moved ? Progress::some : Progress::none;
}

int HostGather::waiting_for() const {
  if (!received_) return own_->waiting_for();
  const int rank = board_->behind(&SharedBoard::Place::gathered, number_);
  return rank < 0 ? -1 : local_ranks_[static_cast<std::size_t>(rank)];
}

}  // namespace babelring
