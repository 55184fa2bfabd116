#include "nmt/comm/mpi/tree_collectives.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <limits>

#include "nmt/comm/communicator.h"

namespace babelring {
namespace {

/// Precedes the bytes of a rank in a message.
struct BlockHeader {
  std::int64_t rank, bytes;
};

void append_block(std::string& blocks, int rank, const std::string& bytes) {
  const BlockHeader header{rank, static_cast<std::int64_t>(bytes.size())};
  blocks.append(reinterpret_cast<const char*>(&header), sizeof header).append(bytes);
}

std::vector<std::string> split_blocks(const std::string& blocks, int ranks) {
  std::vector<std::string> by_rank(static_cast<std::size_t>(ranks));
  for (std::size_t at = 0; at < blocks.size();) {
    BlockHeader header{};
    std::memcpy(&header, blocks.data() + at, sizeof header);
    at += sizeof header;
    by_rank[static_cast<std::size_t>(header.rank)] = blocks.substr(at, static_cast<std::size_t>(header.bytes));
    at += static_cast<std::size_t>(header.bytes);
  }
  return by_rank;
}

}  // namespace

TreeGather::TreeGather(MPI_Comm comm, std::shared_ptr<const RankTree> tree, int rank, int tag, std::string name,
                       std::shared_ptr<GatherExchange> exchange, Answer answer, Merge merge)
    : comm_(comm),
      tree_(std::move(tree)),
      rank_(rank),
      tag_(tag),
      name_(std::move(name)),
      exchange_(std::move(exchange)),
      compute_answer_(std::move(answer)),
      merge_(std::move(merge)),
      parent_{.from = tree_->parent(rank), .bytes = {}, .request = {}} {
  for (const int child : tree_->children(rank)) children_.push_back({.from = child, .bytes = {}, .request = {}});
}

void TreeGather::begin() {
  if (merge_) {
    gathered_ = exchange_->own;
  } else {
    append_block(gathered_, rank_, exchange_->own);
  }
  if (children_.empty()) enter_gathered();
}

Collective::Progress TreeGather::advance() {
  if (phase_ == Phase::sending) return finish_sends();
  if (phase_ == Phase::gathering) {
    bool any = false;
    for (Incoming& child : children_) any |= receive(child);
    if (std::all_of(children_.begin(), children_.end(), [](const Incoming& child) { return child.complete; })) {
      for (const Incoming& child : children_) {
        if (merge_) {
          merge_(gathered_, child.bytes);
        } else {
          gathered_ += child.bytes;
        }
      }
      enter_gathered();
      any = true;
    }
    return any ? Progress::some : Progress::none;
  }
  if (!receive(parent_)) return Progress::none;
  exchange_->answer = parent_.bytes;
  for (const Incoming& child : children_) send(exchange_->answer, child.from);
  phase_ = Phase::sending;
  return Progress::some;
}

/// This rank and all ranks below it are gathered.
void TreeGather::enter_gathered() {
  if (parent_.from >= 0) {
    send(gathered_, parent_.from);
    phase_ = Phase::waiting;
    return;
  }
  exchange_->answer = merge_ ? gathered_ : compute_answer_(split_blocks(gathered_, tree_->ranks()));
  for (const Incoming& child : children_) send(exchange_->answer, child.from);
  phase_ = Phase::sending;
}

/// True when the message becomes complete.
bool TreeGather::receive(Incoming& message) {
  if (message.complete) return false;
  if (!message.found) {
    int found = 0;
    MPI_Status status;
    check_mpi(MPI_Iprobe(message.from, tag_, comm_, &found, &status), "MPI_Iprobe");
    if (!found) return false;
    int size = 0;
    check_mpi(MPI_Get_count(&status, MPI_CHAR, &size), "MPI_Get_count");
    message.found = true;
    message.bytes.resize(static_cast<std::size_t>(size));
    check_mpi(MPI_Irecv(message.bytes.data(), size, MPI_CHAR, message.from, tag_, comm_, message.request.out()),
              "MPI_Irecv");
  }
  message.complete = message.request.test();
  return message.complete;
}

void TreeGather::send(const std::string& bytes, int to) {
  if (bytes.size() > std::size_t{std::numeric_limits<int>::max()}) {
    throw CommError(name_ + ": the messages exceed 2 GiB together");
  }
  MpiRequest& request = sends_.emplace_back();
  check_mpi(MPI_Isend(bytes.data(), static_cast<int>(bytes.size()), MPI_CHAR, to, tag_, comm_, request.out()),
            "MPI_Isend");
}

Collective::Progress TreeGather::finish_sends() {
  const std::size_t before = sends_.size();
  std::erase_if(sends_, [](MpiRequest& request) { return request.test(); });
  if (sends_.empty()) return Progress::done;
  return sends_.size() < before ? Progress::some : Progress::none;
}

int TreeGather::waiting_for() const {
  if (phase_ == Phase::waiting) return parent_.from;
  const auto missing =
      std::find_if(children_.begin(), children_.end(), [](const auto& each) { return !each.complete; });
  return phase_ == Phase::gathering && missing != children_.end() ? missing->from : -1;
}

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
