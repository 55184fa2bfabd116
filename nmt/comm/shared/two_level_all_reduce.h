#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "nmt/comm/collective.h"
#include "nmt/comm/shared/shared_all_reduce.h"

namespace babelring {

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
