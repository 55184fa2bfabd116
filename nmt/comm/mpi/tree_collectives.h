#pragma once

#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "nmt/comm/collective.h"
#include "nmt/comm/mpi/handles.h"
#include "nmt/comm/schedule/tree.h"

namespace babelring {

/// This rank's part in a TreeGather. Shared with the thread that waits for it.
struct GatherExchange {
  std::string own;     // this rank's bytes, of any length
  std::string answer;  // set by the gather; equal on all ranks
};

/// Gathers the bytes of all ranks at the root of a tree, computes an answer there, and sends it to all ranks. The bytes
/// of a rank and those of the ranks below it travel in one message, one after the other or merged into as many as one
/// rank has; the answer then is what the root has merged.
class TreeGather final : public Collective {
 public:
  /// Computes the answer from the bytes of all ranks, in rank order. Called on the root only. May throw CommError.
  using Answer = std::function<std::string(const std::vector<std::string>&)>;
  /// Adds the bytes of the ranks below to those of this rank. May throw CommError.
  using Merge = std::function<void(std::string& own, const std::string& below)>;

  /// One of `answer` and `merge` is empty. `tag` must be unique among the collectives in flight on `comm`.
  TreeGather(MPI_Comm comm, std::shared_ptr<const RankTree> tree, int rank, int tag, std::string name,
             std::shared_ptr<GatherExchange> exchange, Answer answer, Merge merge = {});

  void begin() override;
  Progress advance() override;
  std::string name() const override { return name_; }
  std::int64_t bytes() const override { return 0; }
  int waiting_for() const override;

 private:
  /// A message of any length from one rank.
  struct Incoming {
    int from;
    bool found = false, complete = false;
    std::string bytes;
    MpiRequest request;
  };
  enum class Phase { gathering, waiting, sending };

  bool receive(Incoming& message);
  void send(const std::string& bytes, int to);
  void enter_gathered();
  Progress finish_sends();

  MPI_Comm comm_;
  std::shared_ptr<const RankTree> tree_;
  int rank_, tag_;
  std::string name_;
  std::shared_ptr<GatherExchange> exchange_;
  Answer compute_answer_;
  Merge merge_;
  Phase phase_ = Phase::gathering;
  std::vector<Incoming> children_;
  Incoming parent_;
  std::string gathered_;  // blocks, or merged bytes, of this rank and all ranks below it
  std::vector<MpiRequest> sends_;
};

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
