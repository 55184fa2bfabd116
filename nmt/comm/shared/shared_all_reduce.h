#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "nmt/comm/add.h"
#include "nmt/comm/collective.h"
#include "nmt/comm/shared/event_count.h"
#include "nmt/comm/shared/shared_memory.h"
#include "nmt/core/shards.h"

namespace babelring {

/// Progress counters of all ranks on one machine, in shared memory, by which they synchronise their collectives. Ranks
/// are numbered on the machine, from 0.
class SharedBoard {
 public:
  /// One rank's counters. Only that rank writes them, except that any rank may notify the event count. All-zero bytes
  /// are a valid initial state.
  struct Place {
    alignas(64) std::atomic<std::int64_t> published;  // all-reduces this rank has entered with complete values
    std::atomic<std::int64_t> summed;                 // all-reduces whose shard this rank has summed
    std::atomic<std::int64_t> gathered;               // all-gathers of which this rank has received its parts
    alignas(64) EventCount event_count;               // notified when another rank's counters change
  };

  static std::size_t file_bytes(int ranks) { return sizeof(Place) * static_cast<std::size_t>(ranks); }
  SharedBoard(std::shared_ptr<SharedFile> file, int rank, int ranks)
      : file_(std::move(file)), rank_(rank), ranks_(ranks) {}

  int rank() const { return rank_; }
  int ranks() const { return ranks_; }
  Place& place(int rank) const { return reinterpret_cast<Place*>(file_->data())[rank]; }
  Place& own() const { return place(rank_); }
  void ring_peers() const;
  /// The first rank whose `counter` has not reached collective `number`; -1 if all have.
  int behind(std::atomic<std::int64_t> Place::* counter, std::int64_t number) const;

 private:
  std::shared_ptr<SharedFile> file_;
  int rank_, ranks_;
};

/// Elements summed per call of Collective::advance().
inline constexpr std::int64_t shared_sum_block = 1 << 17;

/// The elements of `count` that rank `rank` of `ranks` sums. Begins at a cache line, so that no two ranks write to the
/// same one.
ElementRange summed_by(int rank, int ranks, std::int64_t count);

/// All-reduce through shared memory. Once all ranks have published their values, each rank sums one shard of the
/// elements in rank order, or in a tree over the ranks, and writes the sums to all ranks. Every element is read and
/// written once per rank; no messages are sent. Results are bit-equal on all ranks.
class SharedAllReduce final : public Collective {
 public:
  /// `data` must lie in `memory`. `number` is the number of all-reduces started on `board` before this one.
  SharedAllReduce(std::shared_ptr<const SharedBoard> board, const SharedMemory& memory, float* data, std::int64_t count,
                  std::int64_t number, AddOrder order = AddOrder::any);

  void begin() override;
  Progress advance() override;
  std::string name() const override;
  std::int64_t bytes() const override { return count_ * std::int64_t{sizeof(float)}; }
  int waiting_for() const override;
  bool notified() const override { return true; }

 private:
  std::shared_ptr<const SharedBoard> board_;
  std::vector<float*> parts_;  // by rank
  std::int64_t count_, number_, next_ = 0, end_ = 0;
  AddOrder order_;
  bool summed_ = false;
};

}  // namespace babelring
