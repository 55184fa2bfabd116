#pragma once

#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "nmt/comm/collective.h"
#include "nmt/comm/mpi/handles.h"

namespace babelring {

/// One rank's part in a broadcast through a tree: receives from one neighbour and passes on to others, in segments, so
/// that all links of the tree are busy at the same time.
class TreeBroadcast final : public Collective {
 public:
  /// Receives into `bytes`, whose size is equal on all ranks, from rank `from` (-1: this rank has the bytes, or takes
  /// no part) and sends to `targets`. `tag` must be unique among the collectives in flight on `comm`. `root` is for
  /// messages only.
  TreeBroadcast(MPI_Comm comm, int from, std::vector<int> targets, int tag, std::shared_ptr<std::string> bytes,
                int root)
      : comm_(comm), from_(from), targets_(std::move(targets)), tag_(tag), bytes_(std::move(bytes)), root_(root) {}

  void begin() override { post(); }
  Progress advance() override;
  std::string name() const override;
  std::int64_t bytes() const override { return 0; }
  int waiting_for() const override { return arrived_ < bytes_->size() ? from_ : -1; }

 private:
  std::size_t end_of(std::size_t begin) const;
  void post();

  MPI_Comm comm_;
  int from_;
  std::vector<int> targets_;
  int tag_;
  std::shared_ptr<std::string> bytes_;
  int root_;
  std::size_t posted_ = 0, arrived_ = 0, sent_ = 0;  // bytes from the front
  std::deque<MpiRequest> receives_, sends_;
};

}  // namespace babelring
