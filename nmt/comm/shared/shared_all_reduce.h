#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "nmt/comm/collective.h"
#include "nmt/comm/shared/comm_memory.h"
#include "nmt/comm/sums.h"
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

/// All-reduce on two levels, for hosts with the same number of ranks. Once all ranks of the host have published their
/// values, each rank sums one shard of the elements over the host's ranks, in the order of their numbers or in a tree
/// over them, into its own values. Then it sums that shard over the hosts, together with the rank of the same index on
/// each host, and writes the result to the other ranks of its host. Results are bit-equal on all ranks if the sum over
/// hosts is. In a reduce-scatter nothing is written to the other ranks of the host: each rank sums its part over the
/// host and gets what the sum over hosts leaves there.
class TwoLevelAllReduce final : public Collective {
 public:
  /// Creates the sum of `count` elements at `data` over hosts, in place.
  using SumOverHosts = std::function<std::unique_ptr<Collective>(float* data, std::int64_t count)>;

  /// `data` must lie in `memory`, which the ranks of `board` share. `number` is the number of all-reduces started on
  /// `board` before this one. `local_ranks` names the board's ranks in messages. `part`: this rank's elements in a
  /// reduce-scatter, without overlap with the other ranks' of the host; absent: all-reduce.
  TwoLevelAllReduce(std::shared_ptr<const SharedBoard> board, const SharedMemory& memory, float* data,
                    std::int64_t count, std::int64_t number, std::vector<int> local_ranks, SumOverHosts over_hosts,
                    AddOrder order = AddOrder::any, std::optional<ElementRange> part = {});

  void begin() override;
  Progress advance() override;
  std::string name() const override;
  /// The bytes of this rank's shard, which travels in messages.
  std::int64_t bytes() const override { return (shard_.end - shard_.begin) * std::int64_t{sizeof(float)}; }
  std::int64_t payload_bytes() const override { return count_ * std::int64_t{sizeof(float)}; }
  int waiting_for() const override;
  bool notified() const override { return phase_ != Phase::between_hosts; }

 private:
  enum class Phase { within_host, between_hosts, writing, waiting };

  Progress sum_within_host();
  Progress sum_between_hosts();
  Progress write_to_host();

  std::shared_ptr<const SharedBoard> board_;
  float* own_;
  std::vector<float*> parts_;  // by rank on the host
  std::int64_t count_, number_;
  bool scatters_;
  ElementRange shard_;
  std::int64_t next_;
  std::vector<int> local_ranks_;
  SumOverHosts start_over_hosts_;
  AddOrder order_;
  std::unique_ptr<Collective> over_hosts_;
  Phase phase_ = Phase::within_host;
};

}  // namespace babelring
