#include "nmt/comm/mpi/tree_broadcast.h"

#include <fmt/format.h>

#include <algorithm>

namespace babelring {
namespace {

constexpr std::size_t segment_bytes = 60 * 1024;  // see CommOptions::segment_bytes
constexpr std::size_t max_receives = 16, max_sends = 32;

}  // namespace

Collective::Progress TreeBroadcast::advance() {
  bool any = false;
  for (; !receives_.empty() && receives_.front().test(); any = true) {
    receives_.pop_front();
    arrived_ = end_of(arrived_);
  }
  for (; !sends_.empty() && sends_.front().test(); any = true) sends_.pop_front();
  if (any) post();
  if (arrived_ == bytes_->size() && (targets_.empty() || sent_ == arrived_) && sends_.empty()) return Progress::done;
  return any ? Progress::some : Progress::none;
}

std::size_t TreeBroadcast::end_of(std::size_t begin) const {
  return std::min(bytes_->size(), begin + segment_bytes);
}

void TreeBroadcast::post() {
  if (from_ < 0) posted_ = arrived_ = bytes_->size();
  for (; posted_ < bytes_->size() && receives_.size() < max_receives; posted_ = end_of(posted_)) {
    check_mpi(MPI_Irecv(bytes_->data() + posted_, static_cast<int>(end_of(posted_) - posted_), MPI_CHAR, from_, tag_,
                        comm_, receives_.emplace_back().out()),
              "MPI_Irecv");
  }
  for (; sent_ < arrived_ && !targets_.empty() && sends_.size() < max_sends; sent_ = end_of(sent_)) {
    for (const int target : targets_) {
      check_mpi(MPI_Isend(bytes_->data() + sent_, static_cast<int>(end_of(sent_) - sent_), MPI_CHAR, target, tag_,
                          comm_, sends_.emplace_back().out()),
                "MPI_Isend");
    }
  }
}

std::string TreeBroadcast::name() const {
  return fmt::format("broadcast of {:.1f} MB from rank {}", static_cast<double>(bytes_->size()) / 1e6, root_);
}

}  // namespace babelring
